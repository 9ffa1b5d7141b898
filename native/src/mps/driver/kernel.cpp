#include "mps/driver/kernel.h"

#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "mps/driver/encode.h"
#include "mps/driver/shader_library.h"
#include "mps/kernels/sources.h"

namespace aoti_plugins::mps {
namespace {

/// The kernels that were asked for, by source, function and defines.
struct Known {
  using Entry = std::pair<std::shared_ptr<ShaderLibrary>, const Kernel*>;
  std::mutex mutex;
  std::map<std::string, Entry> kernels;
};

Known& known() {
  static Known* instance = new Known();
  return *instance;
}

}  // namespace

const Kernel* find_kernel(const MetalSource& source, const char* function,
                          const std::string& defines) noexcept {
  try {
    const std::string key = std::string(source.name) + ' ' + function + ' ' + defines;
    {
      const std::lock_guard<std::mutex> lock(known().mutex);
      const auto found = known().kernels.find(key);
      if (found != known().kernels.end()) {
        return found->second.second;
      }
    }
    auto library = ShaderLibrary::get(std::string(metal_prelude.text) + defines + source.text);
    const Kernel* kernel = library->kernel(function);
    if (kernel == nullptr) {
      (void)fail("%s.metal: %s", source.name, last_failure());
      return nullptr;
    }
    const std::lock_guard<std::mutex> lock(known().mutex);
    known().kernels.emplace(key, Known::Entry(std::move(library), kernel));
    return kernel;
  } catch (const std::exception& error) {
    (void)fail("%s.metal: %s", source.name, error.what());
    return nullptr;
  }
}

size_t max_threads(const Kernel& kernel) noexcept {
  return kernel.max_threads();
}

Launch::Launch(const Kernel* kernel) noexcept : kernel_(kernel) {
  status_ = kernel != nullptr ? begin_kernel(*kernel) : Status::kFailed;
}

Launch& Launch::tensor(const Tensor& t) noexcept {
  status_ = status_ == Status::kOk ? bind_tensor(next_++, t) : status_;
  return *this;
}

Launch& Launch::memory(void* data, size_t nbytes) noexcept {
  status_ = status_ == Status::kOk ? bind_memory(next_++, data, nbytes) : status_;
  return *this;
}

Launch& Launch::bytes(const void* data, size_t nbytes) noexcept {
  status_ = status_ == Status::kOk ? bind_bytes(next_++, data, nbytes) : status_;
  return *this;
}

Status Launch::threads(Size grid, Size group) noexcept {
  return status_ == Status::kOk ? dispatch_threads(*kernel_, grid, group) : status_;
}

Status Launch::groups(Size groups, Size group) noexcept {
  return status_ == Status::kOk ? dispatch_groups(*kernel_, groups, group) : status_;
}

}  // namespace aoti_plugins::mps
