// Objects with a class, methods and a count of references, as the Objective-C runtime has them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>

namespace stand_in {

struct Object;
using Selector = const char*;  // one address per name
using Method = void (*)();     // takes (Object*, Selector, ...)

struct MethodEntry {
  const char* name;
  Method method;
};

struct Class {
  const char* name;
  const MethodEntry* methods;
  size_t method_count;
  long live;  // instances
};

template <size_t kCount>
constexpr Class make_class(const char* name, const MethodEntry (&methods)[kCount]) {
  return {name, methods, kCount, 0};
}

constexpr uint32_t kLiveObject = 0x0B7EC700;
constexpr uint32_t kDeadObject = 0xDEAD0B7E;

/// Stays in memory for a while after its last release, so that a later use is noticed.
struct Object {
  explicit Object(Class* isa);
  virtual ~Object() = default;
  /// Gives back what the object holds; called by the last release.
  virtual void dealloc() {}

  Class* isa;
  long references = 1;
  uint32_t magic = kLiveObject;
};

Object* retain(Object* object);
void release(Object* object);
/// Released when the innermost pool is popped. Without a pool it would leak: that is misuse.
Object* autorelease(Object* object);

/// Guards everything that threads share.
std::recursive_mutex& lock();

/// Reports what a caller must not do: aborts, or counts.
void misuse(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// Owns a reference.
template <typename T>
class Reference {
 public:
  Reference() = default;
  explicit Reference(T* object) : object_(object) {
    if (object_ != nullptr) {
      retain(object_);
    }
  }
  Reference(const Reference& other) : Reference(other.object_) {}
  Reference(Reference&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Reference& operator=(Reference other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Reference() { reset(); }

  void reset() {
    if (T* object = std::exchange(object_, nullptr); object != nullptr) {
      release(object);
    }
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }

 private:
  T* object_ = nullptr;
};

/// `object` as a living T; null, after misuse, if it is none.
template <typename T>
T* expect(Object* object, const char* what) {
  T* result = dynamic_cast<T*>(object);
  if (result == nullptr) {
    misuse("%s: %s is of the wrong class", what, object == nullptr ? "nil" : object->isa->name);
  } else if (result->magic != kLiveObject) {
    misuse("%s: a %s after its last release", what, result->isa->name);
    result = nullptr;
  }
  return result;
}

/// Makes a class known to objc_getClass, with its class methods.
struct RegisteredClass {
  RegisteredClass(const Class& instances, Class* class_methods);
};

/// The address that stands for a selector's name.
Selector selector(const char* name);
/// The method of an object's class, or null.
Method find_method(const Object* object, Selector selector);

template <typename R, typename... Arguments>
Method as_method(R (*function)(Object*, Selector, Arguments...)) {
  return reinterpret_cast<Method>(function);
}

}  // namespace stand_in
