#pragma once

#include "cpu/math/gemm_problem.h"
#include "slim/status.h"

namespace aoti_plugins::cpu {

/// Runs a product on the best kernels this machine has, over several threads when it is large.
Status gemm(const GemmProblem<float>& problem) noexcept;
Status gemm(const GemmProblem<double>& problem) noexcept;

/// The kernels that `gemm()` uses: the best this machine has.
const GemmKernels& gemm_kernels() noexcept;

}  // namespace aoti_plugins::cpu
