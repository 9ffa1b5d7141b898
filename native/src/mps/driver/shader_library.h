#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/driver/objc.h"

namespace aoti_plugins::mps {

/// A shader in Metal's language with the kernels that were built from it. One per text in the
/// process, as long as anybody holds it. Thread-safe.
class ShaderLibrary {
 public:
  /// The library with a text, which is compiled when the first kernel is asked for. Throws when
  /// memory runs out.
  static std::shared_ptr<ShaderLibrary> get(const std::string& source);

  /// A kernel by its name, built by the first call and borrowed while the library is held. Null,
  /// with a reason, when it does not build; the next call tries again.
  const Kernel* kernel(const char* name) noexcept;

  explicit ShaderLibrary(std::string source) : source_(std::move(source)) {}
  ShaderLibrary(const ShaderLibrary&) = delete;
  ShaderLibrary& operator=(const ShaderLibrary&) = delete;

 private:
  Status compile();
  Status build(const char* name, std::unique_ptr<Kernel>* ret);

  std::mutex mutex_;
  std::string source_;
  Owned library_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace aoti_plugins::mps
