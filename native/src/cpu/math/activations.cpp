#include "cpu/math/activations.h"

#include <cstring>

#include "cpu/math/best_kernels.h"

namespace aoti_plugins::cpu {

Activation activation_named(const char* name) noexcept {
  static const ActivationKernels kernels = AOTIP_BEST_KERNELS(activation_kernels);
  const struct {
    const char* name;
    Activation activation;
  } all[] = {{"hardsigmoid", kernels.hardsigmoid},
             {"hardswish", kernels.hardswish},
             {"sigmoid", kernels.sigmoid},
             {"silu", kernels.silu}};
  for (const auto& one : all) {
    if (std::strcmp(one.name, name) == 0) {
      return one.activation;
    }
  }
  return nullptr;
}

}  // namespace aoti_plugins::cpu
