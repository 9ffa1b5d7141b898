// The few classes of Foundation that Metal's interface needs.
#pragma once

#include <string>

#include "object.h"

namespace stand_in {

struct String : Object {
  explicit String(std::string text);
  std::string text;
};

struct Error : Object {
  explicit Error(std::string text);
  std::string text;
};

struct Url : Object {
  explicit Url(std::string path);
  std::string path;
};

/// An array of one object.
struct Array : Object {
  explicit Array(Object* element);
  void dealloc() override { element.reset(); }
  Reference<Object> element;
};

/// Sets an error that the caller of a method asked for.
void set_error(Object** error, const std::string& text);

Object* retain_method(Object* self, Selector);
void release_method(Object* self, Selector);
Object* autorelease_method(Object* self, Selector);
bool responds_method(Object* self, Selector, Selector asked);

}  // namespace stand_in

/// Methods that all objects have.
#define STAND_IN_OBJECT_METHODS                                                 \
  {"retain", ::stand_in::as_method(::stand_in::retain_method)},                 \
      {"release", ::stand_in::as_method(::stand_in::release_method)},           \
      {"autorelease", ::stand_in::as_method(::stand_in::autorelease_method)}, { \
    "respondsToSelector:", ::stand_in::as_method(::stand_in::responds_method)   \
  }
