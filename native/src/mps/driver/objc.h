#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "slim/status.h"

namespace aoti_plugins::mps {

/// An Objective-C object, by its address; null is a nil, to which every message answers 0.
using Id = void*;
using Selector = void*;

/// The functions of the Objective-C runtime and of Metal that we call, found when the first program
/// asks for them. No SDK is needed to build, and a machine without Metal only gets a reason.
struct ObjcRuntime {
  Id (*get_class)(const char* name) = nullptr;
  Selector (*register_name)(const char* name) = nullptr;
  void (*send)() = nullptr;  ///< objc_msgSend; to be called by the type of the method
  void* (*push_pool)() = nullptr;
  void (*pop_pool)(void* pool) = nullptr;
  Id (*create_device)() = nullptr;
};

/// The messages of selectors.inc.
struct Selectors {
#define AOTIP_SELECTOR(name, owner, text) Selector name = nullptr;
#include "mps/driver/selectors.inc"
#undef AOTIP_SELECTOR
};

/// Opens the Objective-C runtime and Metal, at most once; null, with a reason, when they are not
/// here. Elsewhere than on Apple's systems the library that the environment variable
/// AOTI_PLUGINS_METAL names takes their place.
const ObjcRuntime* open_objc() noexcept;

/// The runtime that `open_objc()` has opened, and its selectors.
const ObjcRuntime& objc() noexcept;
const Selectors& selectors() noexcept;

/// Sends a message whose method has the result `R` and exactly these arguments.
template <typename R, typename... Args>
R send(Id receiver, Selector selector, Args... args) noexcept {
  using Method = R (*)(Id, Selector, Args...);
  return reinterpret_cast<Method>(objc().send)(receiver, selector, args...);
}

/// Objects that methods return "autoreleased" live until the end of the scope.
class AutoreleasePool {
 public:
  AutoreleasePool() noexcept : pool_(objc().push_pool()) {}
  ~AutoreleasePool() { objc().pop_pool(pool_); }
  AutoreleasePool(const AutoreleasePool&) = delete;
  AutoreleasePool& operator=(const AutoreleasePool&) = delete;

 private:
  void* pool_;
};

/// One reference to an object, released at the end.
class Owned {
 public:
  Owned() noexcept = default;
  /// Takes over the reference that `alloc` and `new...` return.
  explicit Owned(Id id) noexcept : id_(id) {}
  /// A reference of one's own to an object that somebody else owns.
  static Owned retain(Id id) noexcept { return Owned(send<Id>(id, selectors().retain)); }

  ~Owned() { reset(); }
  Owned(Owned&& other) noexcept : id_(std::exchange(other.id_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this != &other) {
      reset();
      id_ = std::exchange(other.id_, nullptr);
    }
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  void reset() noexcept {
    if (id_ != nullptr) {
      send<void>(std::exchange(id_, nullptr), selectors().release);
    }
  }
  Id get() const noexcept { return id_; }
  /// Gives the reference away.
  Id leave() noexcept { return std::exchange(id_, nullptr); }
  explicit operator bool() const noexcept { return id_ != nullptr; }

 private:
  Id id_ = nullptr;
};

/// A new object of a class that needs no arguments; empty when there is no such class.
Owned make_object(const char* class_name) noexcept;

/// An autoreleased NSString; null where the text is not UTF-8.
Id make_string(const char* text) noexcept;

/// An autoreleased file NSURL.
Id make_file_url(const std::string& path) noexcept;

/// What an NSError says; "no reason given" for null.
std::string error_text(Id error);

/// Whether an object has a method.
bool responds(Id object, Selector selector) noexcept;

}  // namespace aoti_plugins::mps
