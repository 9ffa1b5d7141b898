#include "cpu/libraries/xnnpack.h"

#include <aoti_plugins/delegate.h>
#include <dlfcn.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/platform/log.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string>

#include "delegate/fork_gate.h"

namespace aoti_plugins::cpu {
namespace {

constexpr char kVariable[] = "AOTI_PLUGINS_XNNPACK";
#ifdef __APPLE__
constexpr char kFile[] = "libexecutorch_backend_xnnpack.dylib";
#else
constexpr char kFile[] = "libexecutorch_backend_xnnpack.so";
#endif

/// The library beside the one that has ExecuTorch's runtime.
std::string path_beside_executorch() {
  Dl_info info;
  const void* address =
      reinterpret_cast<const void*>(&::executorch::runtime::get_num_registered_backends);
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
    return kFile;
  }
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash != std::string::npos ? path.substr(0, slash + 1) + kFile : kFile;
}

template <typename Function>
void find(void* library, const char* name, Function* ret, const char** missing) {
  *ret = reinterpret_cast<Function>(dlsym(library, name));
  if (*ret == nullptr) {
    *missing = name;
  }
}

/// Null, or the name of what the library does not have.
const char* fill(void* library, Xnnpack* ret) {
  const char* missing = nullptr;
#define AOTIP_FIND(name) find(library, "xnn_" #name, &ret->name, &missing)
#define AOTIP_FIND_OPERATOR(name) \
  AOTIP_FIND(create_##name);      \
  AOTIP_FIND(reshape_##name);     \
  AOTIP_FIND(setup_##name)
  AOTIP_FIND(initialize);
  AOTIP_FIND(delete_operator);
  AOTIP_FIND(run_operator);
  AOTIP_FIND_OPERATOR(fully_connected_nc_f32);
  AOTIP_FIND_OPERATOR(convolution2d_nhwc_f32);
  AOTIP_FIND_OPERATOR(convolution2d_nhwc_qs8_qc8w);
  AOTIP_FIND_OPERATOR(fully_connected_nc_qd8_f32_qc8w);
  AOTIP_FIND_OPERATOR(fully_connected_nc_qd8_f32_qc4w);
  AOTIP_FIND(create_fully_connected_nc_qd8_f32_qb4w_f16_scales);
  AOTIP_FIND(reshape_fully_connected_nc_qd8_f32_qb4w);
  AOTIP_FIND(setup_fully_connected_nc_qd8_f32_qb4w);
  AOTIP_FIND_OPERATOR(fully_connected_nc_qdu8_f32_qc8w);
  AOTIP_FIND_OPERATOR(fully_connected_nc_qdu8_f32_qc4w);
  AOTIP_FIND(create_fully_connected_nc_qdu8_f32_qb4w_f16_scales);
  AOTIP_FIND(reshape_fully_connected_nc_qdu8_f32_qb4w);
  AOTIP_FIND(setup_fully_connected_nc_qdu8_f32_qb4w);
#undef AOTIP_FIND_OPERATOR
#undef AOTIP_FIND
  // Two functions that came with the signatures above, which earlier versions have otherwise.
  void* dated = nullptr;
  find(library, "xnn_weights_cache_alias_data", &dated, &missing);
  find(library, "xnn_create_fully_connected_nc_qd8_f32_qc2w", &dated, &missing);
  return missing;
}

/// What became of the library, in words.
struct Opened {
  std::optional<Xnnpack> table;
  std::string kernels;
};

Opened open() {
  const char* chosen = std::getenv(kVariable);
  if (chosen != nullptr && std::strcmp(chosen, "off") == 0) {
    return {std::nullopt, std::string("aoti_plugins: ") + kVariable + " is off"};
  }
  const std::string path =
      chosen != nullptr && chosen[0] != '\0' ? chosen : path_beside_executorch();
  Xnnpack table{};
  const char* reason = nullptr;
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    reason = dlerror();
  } else if (const char* missing = fill(library, &table)) {
    reason = missing;
  } else if (table.initialize(nullptr) != kXnnSuccess) {
    reason = "xnn_initialize failed";
  }
  if (reason != nullptr) {
    return {std::nullopt, "aoti_plugins: no XNNPACK in " + path + ": " + reason};
  }
  return {table, "XNNPACK in " + path};
}

const Opened& opened() noexcept {
  static const Opened* const once = []() -> Opened* {
    try {
      auto* found = new Opened(open());
      if (!found->table.has_value()) {
        ET_LOG(Info, "products run on kernels of %s", found->kernels.c_str());
      }
      return found;
    } catch (const std::exception&) {
      return nullptr;  // out of memory
    }
  }();
  static const Opened none{std::nullopt, "aoti_plugins"};
  return once != nullptr ? *once : none;
}

}  // namespace

const Xnnpack* xnnpack() noexcept {
  const Opened& library = opened();
  return library.table.has_value() ? &*library.table : nullptr;
}

const char* product_kernels() noexcept {
  return opened().kernels.c_str();
}

}  // namespace aoti_plugins::cpu

const char* aotip_product_kernels() {
  const aoti_plugins::InsideLibrary inside;
  return aoti_plugins::cpu::product_kernels();
}
