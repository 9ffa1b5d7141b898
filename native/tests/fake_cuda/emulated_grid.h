#pragma once

namespace fake_cuda {

/// How wide a kernel runs.
struct Grid {
  unsigned int blocks = 1;
  unsigned int threads = 1;
  unsigned int cluster = 1;  ///< blocks that run together
};

}  // namespace fake_cuda
