#include "mps/driver/objc.h"

#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>

namespace aoti_plugins::mps {
namespace {

ObjcRuntime runtime;
Selectors names;
std::atomic<bool> is_open{false};

using Libraries = std::array<void*, 3>;  // null where there are fewer

std::mutex& mutex() {
  static std::mutex* instance = new std::mutex();
  return *instance;
}

#ifdef __APPLE__
#define AOTIP_FRAMEWORK(name) "/System/Library/Frameworks/" name ".framework/" name

// Without Core Graphics in the process a tool without windows is given no default device.
constexpr const char* kLibraries[] = {"/usr/lib/libobjc.A.dylib", AOTIP_FRAMEWORK("Metal"),
                                      AOTIP_FRAMEWORK("CoreGraphics")};

Status open_libraries(Libraries* ret) {
  for (size_t i = 0; i < ret->size(); ++i) {
    (*ret)[i] = dlopen(kLibraries[i], RTLD_NOW | RTLD_LOCAL);
    AOTIP_CHECK((*ret)[i] != nullptr, "Metal is not here: %s", dlerror());
  }
  return Status::kOk;
}
#else
Status open_libraries(Libraries* ret) {
  const char* path = std::getenv("AOTI_PLUGINS_METAL");
  AOTIP_CHECK(path != nullptr && path[0] != '\0',
              "Metal is only on Apple's systems (for tests, AOTI_PLUGINS_METAL names a library "
              "that stands in for it)");
  (*ret)[0] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  AOTIP_CHECK((*ret)[0] != nullptr, "AOTI_PLUGINS_METAL: %s", dlerror());
  return Status::kOk;
}
#endif

template <typename Function>
Status find(const Libraries& libraries, const char* name, Function* ret) {
  for (void* library : libraries) {
    if (void* symbol = library != nullptr ? dlsym(library, name) : nullptr) {
      *ret = reinterpret_cast<Function>(symbol);
      return Status::kOk;
    }
  }
  return fail("Metal is not here: no function %s in the system's libraries", name);
}

Status open() {
  Libraries libraries{};
  AOTIP_RETURN_IF_FAILED(open_libraries(&libraries));
  ObjcRuntime found;
  AOTIP_RETURN_IF_FAILED(find(libraries, "objc_getClass", &found.get_class));
  AOTIP_RETURN_IF_FAILED(find(libraries, "sel_registerName", &found.register_name));
  AOTIP_RETURN_IF_FAILED(find(libraries, "objc_msgSend", &found.send));
  AOTIP_RETURN_IF_FAILED(find(libraries, "objc_autoreleasePoolPush", &found.push_pool));
  AOTIP_RETURN_IF_FAILED(find(libraries, "objc_autoreleasePoolPop", &found.pop_pool));
  AOTIP_RETURN_IF_FAILED(find(libraries, "MTLCreateSystemDefaultDevice", &found.create_device));
  runtime = found;
#define AOTIP_SELECTOR(name, owner, text) names.name = found.register_name(text);
#include "mps/driver/selectors.inc"
#undef AOTIP_SELECTOR
  return Status::kOk;
}

}  // namespace

const ObjcRuntime* open_objc() noexcept {
  if (is_open.load(std::memory_order_acquire)) {
    return &runtime;
  }
  const std::lock_guard<std::mutex> lock(mutex());
  if (!is_open.load(std::memory_order_relaxed)) {
    if (open() != Status::kOk) {
      return nullptr;
    }
    is_open.store(true, std::memory_order_release);
  }
  return &runtime;
}

const ObjcRuntime& objc() noexcept {
  return runtime;
}

const Selectors& selectors() noexcept {
  return names;
}

Owned make_object(const char* class_name) noexcept {
  return Owned(send<Id>(objc().get_class(class_name), names.make));
}

Id make_string(const char* text) noexcept {
  return send<Id, const char*>(objc().get_class("NSString"), names.stringWithUTF8String, text);
}

Id make_file_url(const std::string& path) noexcept {
  return send<Id, Id>(objc().get_class("NSURL"), names.fileURLWithPath, make_string(path.c_str()));
}

std::string error_text(Id error) {
  const char* text =
      send<const char*>(send<Id>(error, names.localizedDescription), names.UTF8String);
  return text != nullptr ? text : "no reason given";
}

bool responds(Id object, Selector selector) noexcept {
  // BOOL is a signed char on some machines and a bool on others; either way one byte.
  return send<unsigned char, Selector>(object, names.respondsToSelector, selector) != 0;
}

}  // namespace aoti_plugins::mps
