#include "foundation.h"

#include <utility>

namespace stand_in {

Object* retain_method(Object* self, Selector) {
  return retain(self);
}
void release_method(Object* self, Selector) {
  release(self);
}
Object* autorelease_method(Object* self, Selector) {
  return autorelease(self);
}
bool responds_method(Object* self, Selector, Selector asked) {
  return find_method(self, asked) != nullptr;
}

namespace {

const char* string_bytes(Object* self, Selector) {
  return static_cast<String*>(self)->text.c_str();
}
unsigned long string_length(Object* self, Selector) {
  return static_cast<String*>(self)->text.size();
}
Object* string_with_bytes(Object*, Selector, const char* bytes) {
  if (bytes == nullptr) {
    misuse("stringWithUTF8String: of a null pointer");
    bytes = "";
  }
  return autorelease(new String(bytes));
}
Object* error_description(Object* self, Selector) {
  return autorelease(new String(static_cast<Error*>(self)->text));
}
long error_code(Object*, Selector) {
  return 1;
}
Object* url_of_path(Object*, Selector, Object* path) {
  const auto* text = expect<String>(path, "fileURLWithPath:");
  return autorelease(new Url(text == nullptr ? "" : text->text));
}

Object* array_with_object(Object*, Selector, Object* element) {
  return autorelease(new Array(element));
}
unsigned long array_count(Object*, Selector) {
  return 1;
}
Object* array_at(Object* self, Selector, unsigned long index) {
  if (index != 0) {
    misuse("objectAtIndex:%lu of an array of one", index);
  }
  return static_cast<Array*>(self)->element.get();
}

const MethodEntry kArrayMethods[] = {{"count", as_method(array_count)},
                                     {"objectAtIndex:", as_method(array_at)},
                                     STAND_IN_OBJECT_METHODS};
const MethodEntry kArrayClassMethods[] = {{"arrayWithObject:", as_method(array_with_object)}};
const MethodEntry kStringMethods[] = {{"UTF8String", as_method(string_bytes)},
                                      {"length", as_method(string_length)},
                                      STAND_IN_OBJECT_METHODS};
const MethodEntry kErrorMethods[] = {{"localizedDescription", as_method(error_description)},
                                     {"code", as_method(error_code)},
                                     STAND_IN_OBJECT_METHODS};
const MethodEntry kUrlMethods[] = {STAND_IN_OBJECT_METHODS};
const MethodEntry kStringClassMethods[] = {{"stringWithUTF8String:", as_method(string_with_bytes)}};
const MethodEntry kUrlClassMethods[] = {{"fileURLWithPath:", as_method(url_of_path)}};
const MethodEntry kNoMethods[] = {{"class", nullptr}};

Class string_class = make_class("NSString", kStringMethods);
Class string_class_class = make_class("NSString class", kStringClassMethods);
Class error_class = make_class("NSError", kErrorMethods);
Class error_class_class = make_class("NSError class", kNoMethods);
Class array_class = make_class("NSArray", kArrayMethods);
Class array_class_class = make_class("NSArray class", kArrayClassMethods);
Class url_class = make_class("NSURL", kUrlMethods);
Class url_class_class = make_class("NSURL class", kUrlClassMethods);
const RegisteredClass registered[] = {{string_class, &string_class_class},
                                      {error_class, &error_class_class},
                                      {array_class, &array_class_class},
                                      {url_class, &url_class_class}};

}  // namespace

String::String(std::string text_) : Object(&string_class), text(std::move(text_)) {}
Error::Error(std::string text_) : Object(&error_class), text(std::move(text_)) {}
Array::Array(Object* element_) : Object(&array_class), element(element_) {}
Url::Url(std::string path_) : Object(&url_class), path(std::move(path_)) {}

void set_error(Object** error, const std::string& text) {
  if (error != nullptr) {
    *error = autorelease(new Error(text));
  }
}

}  // namespace stand_in
