// The C shims of products with weights of few bits.

#include <aoti_plugins/shim.h>

#include "cpu/ops/float_linear.h"
#include "cpu/ops/gguf_linear.h"
#include "cpu/ops/small_linear.h"
#include "shim/run_shim.h"

using namespace aoti_plugins;

AOTITorchError aoti_torch_cpu_small_linear(AtenTensorHandle x, AtenTensorHandle* row_scale,
                                           AtenTensorHandle* row_zero, AtenTensorHandle codes,
                                           AtenTensorHandle scale, AtenTensorHandle* zero,
                                           AtenTensorHandle* bias, int64_t bits, int64_t zero_kind,
                                           AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, codes, scale);
    AOTIP_CHECK_ARG(ret0);
    AOTIP_CHECK(unwrap(x)->device().type == kCpu, "x is on %s, expected cpu",
                device_type_name(unwrap(x)->device().type));
    const ops::SmallLinear linear{
        unwrap(x),     unwrap_optional(row_scale), unwrap_optional(row_zero), unwrap(codes),
        unwrap(scale), unwrap_optional(zero),      unwrap_optional(bias),     bits,
        zero_kind};
    return cpu::small_linear(linear, ret0);
  });
}

AOTITorchError aoti_torch_cpu_gguf_linear(AtenTensorHandle x, AtenTensorHandle blocks,
                                          AtenTensorHandle* bias, const char* kind,
                                          AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, blocks);
    AOTIP_CHECK_ARG(kind);
    AOTIP_CHECK_ARG(ret0);
    AOTIP_CHECK(unwrap(x)->device().type == kCpu, "x is on %s, expected cpu",
                device_type_name(unwrap(x)->device().type));
    return cpu::gguf_linear({unwrap(x), unwrap(blocks), unwrap_optional(bias), kind}, ret0);
  });
}

AOTITorchError aoti_torch_cpu_float_linear(AtenTensorHandle x, AtenTensorHandle codes,
                                           AtenTensorHandle scale, AtenTensorHandle* bias,
                                           double whole, const char* kind, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, codes, scale);
    AOTIP_CHECK_ARG(kind);
    AOTIP_CHECK_ARG(ret0);
    AOTIP_CHECK(unwrap(x)->device().type == kCpu, "x is on %s, expected cpu",
                device_type_name(unwrap(x)->device().type));
    return cpu::float_linear(
        {unwrap(x), unwrap(codes), unwrap(scale), unwrap_optional(bias), whole, kind}, ret0);
  });
}
