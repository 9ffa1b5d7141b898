#include "mps/ops/scatter_lines.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/kernels/sources.h"
#include "mps/ops/metal_types.h"

namespace aoti_plugins::mps {
namespace {

/// Threads that keep a GPU busy: lines are shared by several only where there are few.
constexpr int64_t kBusyThreads = 4096;

}  // namespace

Status scatter_lines(const Tensor& out, const Tensor& index, const ScatterSource& source,
                     ScatterArgs args, Combine combine) noexcept {
  try {
    AOTIP_CHECK(args.lines <= std::numeric_limits<uint32_t>::max(), "%lld lines are too many",
                static_cast<long long>(args.lines));
    args.owners = static_cast<int32_t>(std::max<int64_t>(
        std::min<int64_t>({kBusyThreads / args.lines, args.length, args.out_length, 1024}), 1));
    const int64_t src = source.src == nullptr ? 0 : source.sources == nullptr ? 1 : 2;
    const Kernel* kernel = find_kernel(
        metal_scatter, "scatter",
        define("T", metal_type(out.dtype())) + define("REAL", is_real(out.dtype()) ? 1 : 0) +
            define("COMBINE", static_cast<int64_t>(combine)) + define("SRC", src));
    const size_t limit = kernel != nullptr ? std::min<size_t>(max_threads(*kernel), 256) : 1;
    const size_t x = std::min<size_t>(static_cast<size_t>(args.owners), limit);
    const size_t y = std::max<size_t>(limit / x, 1);
    Launch launch(kernel);
    return launch.tensor(out)
        .tensor(index)
        .tensor(source.src != nullptr ? *source.src : out)
        .tensor(source.sources != nullptr ? *source.sources : index)
        .value(args)
        .threads({static_cast<size_t>(args.owners), static_cast<size_t>(args.lines)}, {x, y});
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

}  // namespace aoti_plugins::mps
