#include "mps/driver/shader_library.h"

#include <exception>
#include <iterator>

#include "mps/driver/gpu.h"
#include "mps/driver/metal_values.h"
#include "mps/driver/pipeline_archive.h"

namespace aoti_plugins::mps {
namespace {

struct Cache {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<ShaderLibrary>> libraries;
};

Cache& cache() {
  static Cache* instance = new Cache();
  return *instance;
}

/// The newest version of the language that the system knows, up to the one that we write for.
UInteger language_version() noexcept {
  const int macos = macos_version();
  if (macos == 0 || macos >= 1400) {
    return kLanguageVersion3_1;
  }
  return macos >= 1300 ? kLanguageVersion3_0 : kLanguageVersion2_4;
}

/// Results must not depend on what the compiler may assume of NaN, infinity and order.
Owned make_options() noexcept {
  Owned options = make_object("MTLCompileOptions");
  send<void, UInteger>(options.get(), selectors().setLanguageVersion, language_version());
  if (responds(options.get(), selectors().setMathMode)) {
    send<void, long>(options.get(), selectors().setMathMode, kMathModeSafe);
  } else {
    send<void, unsigned char>(options.get(), selectors().setFastMathEnabled, 0);
  }
  return options;
}

/// Whether a kernel has an argument for faults, by what stands between its name and its body.
bool has_fault_argument(const std::string& source, const char* name) {
  const size_t start = source.find("void " + std::string(name) + "(");
  if (start == std::string::npos) {
    return false;
  }
  const std::string argument = "[[buffer(" + std::to_string(kFaultArgument) + ")]]";
  return source.find(argument, start) < source.find('{', start);
}

}  // namespace

std::shared_ptr<ShaderLibrary> ShaderLibrary::get(const std::string& source) {
  const std::lock_guard<std::mutex> lock(cache().mutex);
  auto& libraries = cache().libraries;
  for (auto it = libraries.begin(); it != libraries.end();) {
    it = it->second.expired() ? libraries.erase(it) : std::next(it);
  }
  std::weak_ptr<ShaderLibrary>& known = libraries[source];
  std::shared_ptr<ShaderLibrary> library = known.lock();
  if (library == nullptr) {
    library = std::make_shared<ShaderLibrary>(source);
    known = library;
  }
  return library;
}

const Kernel* ShaderLibrary::kernel(const char* name) noexcept {
  if (open_gpu() == nullptr) {
    return nullptr;
  }
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::unique_ptr<Kernel>& kernel = kernels_[name];
    if (kernel == nullptr) {
      const AutoreleasePool pool;
      if (compile() != Status::kOk || build(name, &kernel) != Status::kOk) {
        return nullptr;
      }
    }
    return kernel.get();
  } catch (const std::exception& error) {
    (void)fail("kernel '%s': %s", name, error.what());
    return nullptr;
  }
}

Status ShaderLibrary::compile() {
  if (library_) {
    return Status::kOk;
  }
  const Owned options = make_options();
  Id error = nullptr;
  library_ = Owned(send<Id, Id, Id, Id*>(gpu().device, selectors().newLibrary,
                                         make_string(source_.c_str()), options.get(), &error));
  AOTIP_CHECK(static_cast<bool>(library_), "a shader does not compile: %s",
              error_text(error).c_str());
  return Status::kOk;
}

Status ShaderLibrary::build(const char* name, std::unique_ptr<Kernel>* ret) {
  const Owned function(
      send<Id, Id>(library_.get(), selectors().newFunctionWithName, make_string(name)));
  AOTIP_CHECK(static_cast<bool>(function), "a shader has no kernel '%s'", name);
  Owned pipeline;
  AOTIP_RETURN_IF_FAILED(make_pipeline(function.get(), name, source_, &pipeline));
  const size_t max_threads =
      send<UInteger>(pipeline.get(), selectors().maxTotalThreadsPerThreadgroup);
  *ret = std::make_unique<Kernel>(name, std::move(pipeline), max_threads,
                                  has_fault_argument(source_, name));
  return Status::kOk;
}

}  // namespace aoti_plugins::mps
