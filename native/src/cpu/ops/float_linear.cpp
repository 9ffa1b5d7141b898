// Products with weights of floats of 8 and 4 bits.

#include <aoti_plugins/shim.h>

#include <array>
#include <cinttypes>
#include <cstring>
#include <initializer_list>

#include "cpu/math/narrow_product.h"
#include "cpu/ops/dense.h"
#include "cpu/ops/float_product.h"
#include "ops/operand.h"
#include "slim/element.h"
#include "slim/half.h"

namespace aoti_plugins::cpu {
namespace {

/// The arguments of `aoti_plugins::float_linear`: aoti_plugins/operators.inc says what they are.
struct FloatLinear {
  const Tensor* x;
  const Tensor* codes;
  const Tensor* scale;
  const Tensor* bias;  ///< null for none
  double whole;
  const char* kind;
};

using Values = std::array<float, 256>;

/// What floats of 8 bits with 4 bits of an exponent stand for.
const Values& e4m3_values() {
  static const Values values = [] {
    Values found;
    for (uint32_t bits = 0; bits < found.size(); ++bits) {
      const auto half = static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7f) << 7);
      const bool is_number = (bits & 0x7f) != 0x7f;
      found[bits] = is_number ? half_to_float(half) * 256.0f : bits_to_float(0x7fc00000);
    }
    return found;
  }();
  return values;
}

/// What the exponent of a float32 stands for by itself.
const Values& e8m0_values() {
  static const Values values = [] {
    Values found;
    for (uint32_t bits = 0; bits < found.size(); ++bits) found[bits] = bits_to_float(bits << 23);
    found[0] = 0x1p-127f;
    found[255] = bits_to_float(0x7fc00000);
    return found;
  }();
  return values;
}

/// Of a weight: its floats, and what a scale is.
struct Kind {
  const char* name;
  NarrowForm form;
  int64_t group;              ///< weights with one scale; 0: a row
  const Values& (*values)();  ///< what the bits of scales stand for; null where they are float32
};

// Must match aoti_plugins/lowering/small_weights/float_weights.py.
constexpr Kind kKinds[] = {{"e4m3", NarrowForm::kE4M3, 0, nullptr},
                           {"e5m2", NarrowForm::kE5M2, 0, nullptr},
                           {"mx_e4m3", NarrowForm::kE4M3, 32, e8m0_values},
                           {"mx_e5m2", NarrowForm::kE5M2, 32, e8m0_values},
                           {"nvfp4", NarrowForm::kE2M1, 16, e4m3_values}};

Status kind_of(const char* name, const Kind** ret) {
  for (const Kind& kind : kKinds) {
    if (std::strcmp(name, kind.name) == 0) {
      *ret = &kind;
      return Status::kOk;
    }
  }
  AOTIP_CHECK(false, "weights of kind %s, expected e4m3, e5m2, mx_e4m3, mx_e5m2 or nvfp4", name);
}

Status check_scale(const Tensor& scale, const Kind& kind, NarrowWeight* ret) {
  const int32_t dtype = kind.values == nullptr ? kFloat32 : kUInt8;
  AOTIP_CHECK(scale.dtype() == dtype && scale.ndim() == 2 && scale.is_contiguous() &&
                  scale.size(0) == ret->n && scale.size(1) == ret->groups,
              "scales are %s of %" PRId64 " dims, expected contiguous %s [%" PRId64 ", %" PRId64
              "]",
              dtype_name(scale.dtype()), scale.ndim(), dtype_name(dtype), ret->n, ret->groups);
  if (kind.values == nullptr) {
    ret->scale = scale.data_as<float>();
  } else {
    ret->scale_bits = scale.data_as<uint8_t>();
    ret->scale_of_bits = kind.values().data();
  }
  return Status::kOk;
}

Status check(const FloatLinear& l, NarrowWeight* ret) {
  const Tensor& x = *l.x;
  const Tensor& codes = *l.codes;
  const Kind* kind = nullptr;
  AOTIP_RETURN_IF_FAILED(kind_of(l.kind, &kind));
  AOTIP_CHECK(x.ndim() >= 1, "x has no dims");
  AOTIP_CHECK(x.dtype() == kFloat32 || x.dtype() == kFloat16 || x.dtype() == kBFloat16,
              "x is %s, expected float32, float16 or bfloat16", dtype_name(x.dtype()));
  const int64_t k = x.size(x.ndim() - 1);
  const int64_t in_byte = kind->form == NarrowForm::kE2M1 ? 2 : 1;
  AOTIP_CHECK(codes.dtype() == kUInt8 && codes.ndim() == 2 && codes.is_contiguous(),
              "codes are %s of %" PRId64 " dims, expected contiguous uint8 of 2",
              dtype_name(codes.dtype()), codes.ndim());
  AOTIP_CHECK(k > 0 && k % kNarrowPiece == 0 && codes.size(1) * in_byte == k,
              "rows of x have %" PRId64 " elements, those of the weight %" PRId64
              ": not the same multiple of %" PRId64,
              k, codes.size(1) * in_byte, kNarrowPiece);
  ret->form = kind->form;
  ret->n = codes.size(0);
  ret->k = k;
  ret->data = codes.data();
  ret->groups = kind->group == 0 ? 1 : k / kind->group;
  ret->whole = static_cast<float>(l.whole);
  AOTIP_RETURN_IF_FAILED(check_scale(*l.scale, *kind, ret));
  AOTIP_CHECK(l.bias == nullptr || (is_real(l.bias->dtype()) && l.bias->numel() == ret->n),
              "bias is not floats, one for each of %" PRId64 " columns", ret->n);
  for (const Tensor* one : {l.codes, l.scale, l.bias}) {
    AOTIP_CHECK(one == nullptr || one->device() == x.device(), "an argument is on %s, expected cpu",
                device_type_name(one->device().type));
  }
  return Status::kOk;
}

/// A new tensor with the result; fails, with a reason, where an argument does not fit.
Status float_linear(const FloatLinear& linear, AtenTensorHandle* ret) {
  NarrowWeight weight;
  AOTIP_RETURN_IF_FAILED(check(linear, &weight));
  const Tensor& x = *linear.x;
  return make_float_product(x, weight.n, x.dtype(), ret, [&](float* out) {
    OwnedTensor owner;
    const float* rows = as_dense<float>(x, kFloat32, &owner);
    AOTIP_CHECK(rows != nullptr, "out of memory: x as float32");
    AOTIP_RETURN_IF_FAILED(narrow_product(weight, rows_of(x), rows, out));
    return add_bias(linear.bias, rows_of(x), weight.n, out);
  });
}

}  // namespace
}  // namespace aoti_plugins::cpu

using namespace aoti_plugins;

AOTITorchError aoti_torch_cpu_float_linear(AtenTensorHandle x, AtenTensorHandle codes,
                                           AtenTensorHandle scale, AtenTensorHandle* bias,
                                           double whole, const char* kind, AtenTensorHandle* ret0) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSORS(x, codes, scale);
    AOTIP_CHECK_ARG(kind);
    AOTIP_CHECK_ARG(ret0);
    AOTIP_RETURN_IF_FAILED(ops::check_on(*unwrap(x), "x", kCpu));
    return cpu::float_linear(
        {unwrap(x), unwrap(codes), unwrap(scale), unwrap_optional(bias), whole, kind}, ret0);
  });
}
