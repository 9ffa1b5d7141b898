// Recurrent layers over stand-ins for the driver and for cuBLASLt, against those on the CPU.

#include <array>

#include "cuda_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

enum Kind : int64_t { kLstm, kGru, kTanh, kRelu };
constexpr int64_t kGates[] = {4, 3, 1, 1};

/// What a layer is called with; handles are null for what it does not have.
struct Layer {
  Handle inputs;
  Handle hidden;
  Handle cell;
  Handle weight;
  Handle bias;
};

Layer layer_of(int64_t kind, int64_t steps, int64_t batch, int64_t width, int32_t dtype) {
  const int64_t columns = kGates[kind] * width;
  // Small enough that functions of gates are not 0 or 1.
  const auto some = [&](const Ints& sizes, double scale) {
    Handle values = make(sizes, kFloat64);
    Handle tensor = make(sizes, dtype);
    uint32_t state = static_cast<uint32_t>(unwrap(values.get())->numel());
    for (int64_t i = 0; i < unwrap(values.get())->numel(); ++i) {
      state = state * 1664525u + 1013904223u;
      data_of<double>(values)[i] = scale * (static_cast<double>(state >> 8) / (1 << 23) - 1);
    }
    BOOST_TEST_REQUIRE(aoti_torch_copy_(tensor.get(), values.get(), 0) == 0, reason());
    return tensor;
  };
  return {some({steps, batch, columns}, 1), some({batch, width}, 1),
          kind == kLstm ? some({batch, width}, 1) : nullptr,
          some({columns, width}, 1 / std::sqrt(static_cast<double>(width))),
          kind == kGru ? some({columns}, 1) : nullptr};
}

using Shim = decltype(&aoti_torch_cuda_recurrent_layer);

AOTITorchError call(Shim shim, const Layer& layer, int64_t kind, bool reverse,
                    std::array<Handle, 3>* ret) {
  AtenTensorHandle found[3] = {};
  AtenTensorHandle cell = layer.cell.get();
  AtenTensorHandle bias = layer.bias.get();
  const AOTITorchError code = shim(
      layer.inputs.get(), layer.hidden.get(), cell != nullptr ? &cell : nullptr, layer.weight.get(),
      bias != nullptr ? &bias : nullptr, kind, reverse ? 1 : 0, &found[0], &found[1], &found[2]);
  for (size_t i = 0; i < 3; ++i) {
    (*ret)[i].reset(found[i]);
  }
  return code;
}

Layer on_gpu(const Layer& layer) {
  const auto copied = [](const Handle& host) { return host ? to_gpu(host) : nullptr; };
  return {copied(layer.inputs), copied(layer.hidden), copied(layer.cell), copied(layer.weight),
          copied(layer.bias)};
}

void check_layer(int64_t kind, int64_t steps, int64_t batch, int64_t width, int32_t dtype,
                 bool reverse, double tolerance) {
  BOOST_TEST_INFO_SCOPE("kind " << kind << ", " << steps << " steps of [" << batch << ", " << width
                                << "] " << dtype_name(dtype));
  const Layer layer = layer_of(kind, steps, batch, width, dtype);
  std::array<Handle, 3> expected;
  std::array<Handle, 3> found;
  BOOST_TEST_REQUIRE(call(aoti_torch_cpu_recurrent_layer, layer, kind, reverse, &expected) == 0,
                     reason());
  BOOST_TEST_REQUIRE(
      call(aoti_torch_cuda_recurrent_layer, on_gpu(layer), kind, reverse, &found) == 0, reason());
  for (size_t i = 0; i < 3; ++i) {
    BOOST_TEST(sizes_of(found[i]) == sizes_of(expected[i]), boost::test_tools::per_element());
    const std::vector<double> a = numbers(found[i]);
    const std::vector<double> b = numbers(expected[i]);
    double worst = 0;
    for (size_t j = 0; j < b.size(); ++j) {
      worst = std::max(worst, std::abs(a[j] - b[j]));
    }
    BOOST_TEST(worst <= tolerance, "result " << i << " is off by " << worst);
  }
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_recurrent, CudaFixture)

BOOST_AUTO_TEST_CASE(every_kind_in_both_directions) {
  for (const int64_t kind : {kLstm, kGru, kTanh, kRelu}) {
    for (const bool reverse : {false, true}) {
      check_layer(kind, 6, 3, 8, kFloat32, reverse, 2e-6);
      check_layer(kind, 5, 1, 40, kFloat64, reverse, 1e-13);
    }
    check_layer(kind, 5, 2, 16, kBFloat16, false, 4e-2);
    check_layer(kind, 5, 2, 16, kFloat16, true, 5e-3);
  }
}

BOOST_AUTO_TEST_CASE(sizes_of_zero_and_one) {
  for (const int64_t kind : {kLstm, kGru, kTanh, kRelu}) {
    for (const int64_t steps : {0, 1}) {
      for (const int64_t batch : {0, 1}) {
        check_layer(kind, steps, batch, 1, kFloat32, false, 1e-6);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
  std::array<Handle, 3> found;
  Layer layer = layer_of(kLstm, 2, 3, 8, kFloat32);
  const auto refused = [&](const Layer& given, int64_t kind, const char* why) {
    check_refused(call(aoti_torch_cuda_recurrent_layer, given, kind, false, &found), why);
  };
  refused(layer, kLstm, "inputs is on cpu, expected cuda");
  Layer there = on_gpu(layer);
  refused({to_gpu(layer.inputs), nullptr, nullptr, nullptr, nullptr}, kLstm, "hidden is null");
  refused(there, 4, "kind 4, expected 0 to 3");
  refused(there, kTanh, "hidden has size 8 in dim 1, expected 32");
  there.weight = std::move(layer.weight);
  refused(there, kLstm, "weight is on cpu");
  there.weight = to_gpu(there.weight);
  there.cell = nullptr;
  refused(there, kLstm, "an LSTM needs a cell");
}

BOOST_AUTO_TEST_SUITE_END()
