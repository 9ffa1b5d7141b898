#pragma once

/// Recurrent layers: shims that PyTorch does not have, for the op aoti_plugins::recurrent_layer.

#include <aoti_plugins/shim.h>

extern "C" {

/// One layer in one direction, all steps of it. Everything is contiguous, of one dtype, on one
/// device.
///
/// `inputs [steps, batch, gates * width]` is what the input contributes to each gate, biases
/// included (of GRUs without the state's); `hidden [batch, width]` the first state, `cell [batch,
/// width]` the second one that LSTMs have, else null; `weight [gates * width, width]` what the
/// state is multiplied with; `bias [gates * width]` what GRUs add to that product, or null. The
/// kinds are 0 LSTM, 1 GRU, 2 tanh, 3 ReLU, with 4, 3, 1 and 1 gates in PyTorch's order. `reverse`
/// other than 0 goes from the last step to the first.
///
/// Results: the states after each step `[steps, batch, width]`, in the order of the inputs; the
/// last state; the last `cell`, of no elements without one.
AOTIP_EXPORT AOTITorchError aoti_torch_cpu_recurrent_layer(
    AtenTensorHandle inputs, AtenTensorHandle hidden, AtenTensorHandle* cell,
    AtenTensorHandle weight, AtenTensorHandle* bias, int64_t kind, int32_t reverse,
    AtenTensorHandle* ret0, AtenTensorHandle* ret1, AtenTensorHandle* ret2);

}  // extern "C"
