// Collectives on the CPU: over the memory that the ranks of this machine have together.

#include <aoti_plugins/shim.h>

#include "cpu/ops/dense.h"
#include "ops/collectives.h"
#include "ranks/collectives.h"
#include "ranks/world.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cpu {
namespace {

struct Collectives {
  static constexpr int32_t kType = kCpu;
  using Scope = ops::NoScope;

  static const Tensor* dense(const Tensor& x, OwnedTensor* owner) {
    return as_dense(x, x.dtype(), owner);
  }

  static Status copy(Tensor& out, const Tensor& in) { return strided_copy(out, in); }

  static Status all_reduce(const ranks::Group& group, ranks::Reduction reduction, const Tensor& x,
                           Tensor& out) {
    return together(group, [&](ranks::World& world) {
      return ranks::all_reduce(world, group, reduction, x.dtype(), x.numel(), x.data(), out.data());
    });
  }

  static Status all_gather(const ranks::Group& group, const Tensor& x, Tensor& out) {
    return together(group, [&](ranks::World& world) {
      return ranks::all_gather(world, group, x.nbytes(), x.data(), out.data());
    });
  }

  static Status reduce_scatter(const ranks::Group& group, ranks::Reduction reduction,
                               const Tensor& x, Tensor& out) {
    return together(group, [&](ranks::World& world) {
      return ranks::reduce_scatter(world, group, reduction, x.dtype(), out.numel(), x.data(),
                                   out.data());
    });
  }

  static Status all_to_all(const ranks::Group& group, const size_t* in_nbytes, const Tensor& x,
                           const size_t* out_nbytes, Tensor& out) {
    return together(group, [&](ranks::World& world) {
      return ranks::all_to_all(world, group, in_nbytes, x.data(), out_nbytes, out.data());
    });
  }

  static Status broadcast(const ranks::Group& group, int32_t source, const Tensor& x, Tensor& out) {
    return together(group, [&](ranks::World& world) {
      return ranks::broadcast(world, group, source, x.nbytes(), x.data(), out.data());
    });
  }

 private:
  template <typename Work>
  static Status together(const ranks::Group& group, const Work& work) {
    ranks::World* world = ranks::world_of(group.world_size);
    return world == nullptr ? Status::kFailed : work(*world);
  }
};

}  // namespace
}  // namespace aoti_plugins::cpu

#define AOTIP_COLLECTIVE(name) aoti_torch_cpu_##name
#define AOTIP_COLLECTIVES ::aoti_plugins::cpu::Collectives
#include "ops/collective_shims.inc"
