#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace aoti_plugins::cuda {

/// Opens the libraries that a blob will call while its weights are read: cuBLASLt takes 115 ms.
///
/// Which ones follows from the shims that the blob names. It happens on a thread of its own, once
/// for each GPU; a call that comes first waits for it. What fails here fails again, with its
/// reason, in the call that needs the library.
class EarlyLibraries {
 public:
  /// @param symbols what the blob takes from the runtime.
  EarlyLibraries(const std::vector<std::string>& symbols, int32_t gpu) noexcept;

  /// Waits for the thread.
  ~EarlyLibraries();

  EarlyLibraries(const EarlyLibraries&) = delete;
  EarlyLibraries& operator=(const EarlyLibraries&) = delete;

 private:
  std::thread thread_;
};

}  // namespace aoti_plugins::cuda
