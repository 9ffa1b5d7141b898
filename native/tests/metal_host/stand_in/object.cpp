#include "object.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "counters.h"

namespace stand_in {
namespace {

constexpr size_t kGraveyardSize = 4096;

struct State {
  std::recursive_mutex mutex;
  std::set<std::string> selectors;
  std::map<std::string, Object*> classes;
  std::map<std::string, const Class*> instance_classes;
  std::deque<Object*> graveyard;  // released objects, the oldest first
};

/// Never destroyed: threads and exit handlers may still send messages.
State& state() {
  static State* instance = new State();
  return *instance;
}

/// Objects to release, per thread, with the sizes at which pools were pushed.
struct Pools {
  std::vector<Object*> objects;
  std::vector<size_t> starts;
};

Pools& pools() {
  static thread_local Pools instance;
  return instance;
}

void bury(Object* object) {
  State& s = state();
  object->magic = kDeadObject;
  --object->isa->live;
  object->dealloc();
  s.graveyard.push_back(object);
  if (s.graveyard.size() > kGraveyardSize) {
    delete s.graveyard.front();
    s.graveyard.pop_front();
  }
}

}  // namespace

std::recursive_mutex& lock() {
  return state().mutex;
}

Object::Object(Class* isa_) : isa(isa_) {
  const std::lock_guard<std::recursive_mutex> guard(lock());
  ++isa->live;
}

Object* retain(Object* object) {
  const std::lock_guard<std::recursive_mutex> guard(lock());
  if (object->magic != kLiveObject) {
    misuse("retain of a %s after its last release", object->isa->name);
    return object;
  }
  ++object->references;
  return object;
}

void release(Object* object) {
  const std::lock_guard<std::recursive_mutex> guard(lock());
  if (object->magic != kLiveObject) {
    misuse("over-release of a %s", object->isa->name);
    return;
  }
  if (--object->references == 0) {
    bury(object);
  }
}

Object* autorelease(Object* object) {
  if (pools().starts.empty()) {
    misuse("a %s is autoreleased without a pool: it leaks", object->isa->name);
    return object;
  }
  pools().objects.push_back(object);
  return object;
}

void misuse(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  count_misuse(text);
}

RegisteredClass::RegisteredClass(const Class& instances, Class* class_methods) {
  auto* object = new Object(class_methods);
  state().classes[instances.name] = object;
  state().instance_classes[instances.name] = &instances;
}

Selector selector(const char* name) {
  const std::lock_guard<std::recursive_mutex> guard(lock());
  return state().selectors.insert(name).first->c_str();
}

Method find_method(const Object* object, Selector selector) {
  for (size_t i = 0; i < object->isa->method_count; ++i) {
    if (std::strcmp(object->isa->methods[i].name, selector) == 0) {
      return object->isa->methods[i].method;
    }
  }
  return nullptr;
}

long live_objects(const char* class_name) {
  const std::lock_guard<std::recursive_mutex> guard(lock());
  long count = 0;
  for (const auto& [name, instances] : state().instance_classes) {
    if (class_name == nullptr ? name != "MTLDevice" : name == class_name) {
      count += instances->live;
    }
  }
  return count;
}

}  // namespace stand_in

using stand_in::Object;
using stand_in::Selector;

#define OBJC_EXPORT extern "C" __attribute__((visibility("default")))

OBJC_EXPORT Object* objc_getClass(const char* name) {
  const auto& classes = stand_in::state().classes;
  const auto found = classes.find(name);
  if (found == classes.end()) {
    stand_in::misuse("there is no class %s", name);
    return nullptr;
  }
  return found->second;
}

OBJC_EXPORT Selector sel_registerName(const char* name) {
  return stand_in::selector(name);
}

OBJC_EXPORT void* objc_autoreleasePoolPush() {
  stand_in::Pools& pools = stand_in::pools();
  pools.starts.push_back(pools.objects.size());
  return reinterpret_cast<void*>(pools.starts.size());
}

OBJC_EXPORT void objc_autoreleasePoolPop(void* pool) {
  stand_in::Pools& pools = stand_in::pools();
  const auto depth = reinterpret_cast<size_t>(pool);
  if (depth == 0 || depth > pools.starts.size()) {
    stand_in::misuse("pop of an autorelease pool that is not there");
    return;
  }
  const size_t start = pools.starts[depth - 1];
  while (pools.objects.size() > start) {
    Object* object = pools.objects.back();
    pools.objects.pop_back();
    stand_in::release(object);
  }
  pools.starts.resize(depth - 1);
}
