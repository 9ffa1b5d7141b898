// MTLDevice, and the descriptors and archives that it takes.

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <fstream>

#include "buffer.h"
#include "commands.h"
#include "counters.h"
#include "foundation.h"
#include "library.h"

namespace stand_in {
namespace {

constexpr unsigned long kMaxBufferNbytes = 1ul << 33;
constexpr unsigned long kWorkingSetNbytes = 1ul << 34;
constexpr unsigned long kApple7 = 1007;  // M1
constexpr unsigned long kMac2 = 2002;
constexpr unsigned long kMetal3 = 5001;

struct Size {
  unsigned long width, height, depth;
};

struct Device : Object {
  Device();
};

struct CompileOptions : Object {
  CompileOptions();
};

struct PipelineDescriptor : Object {
  PipelineDescriptor();
  void dealloc() override { function.reset(); }
  Reference<Function> function;
};

struct ArchiveDescriptor : Object {
  ArchiveDescriptor();
  std::string path;
};

struct Archive : Object {
  Archive();
};

Object* device_name(Object*, Selector) {
  return autorelease(new String("Metal stand-in"));
}
Size device_max_threads(Object*, Selector) {
  return {1024, 1024, 1024};
}
bool device_supports(Object*, Selector, unsigned long family) {
  return family == kApple7 || (family > 1000 && family < kApple7) || family == kMac2 ||
         family == kMetal3;
}
unsigned long device_working_set(Object*, Selector) {
  return memory_limit != 0 ? memory_limit.load() : kWorkingSetNbytes;
}
unsigned long device_allocated(Object*, Selector) {
  return allocated_nbytes();
}
unsigned long device_max_buffer(Object*, Selector) {
  return kMaxBufferNbytes;
}
unsigned long device_max_group_memory(Object*, Selector) {
  return 32768;
}
bool device_unified(Object*, Selector) {
  return true;
}
Object* device_queue(Object*, Selector) {
  return make_queue();
}

void check_options(unsigned long options) {
  // Shared storage, write-combined or not, tracked or not.
  if ((options & ~0x301ul) != 0) {
    misuse("buffers with options %#lx, of which the host cannot see the contents", options);
  }
}

Object* device_buffer(Object*, Selector, unsigned long nbytes, unsigned long options) {
  check_options(options);
  if (nbytes > kMaxBufferNbytes) {
    misuse("a buffer of %lu bytes, more than maxBufferLength", nbytes);
    return nullptr;
  }
  return make_buffer(nbytes);
}

Object* device_buffer_of(Object*, Selector, const void* bytes, unsigned long nbytes,
                         unsigned long options) {
  check_options(options);
  Buffer* buffer = make_buffer(nbytes);
  if (buffer != nullptr) {
    std::memcpy(buffer->data, bytes, nbytes);
  }
  return buffer;
}

Object* device_buffer_around(Object*, Selector, void* bytes, unsigned long nbytes,
                             unsigned long options, const void* deallocator) {
  check_options(options);
  if (deallocator != nullptr) {
    misuse("newBufferWithBytesNoCopy: with a deallocator, which the stand-in cannot call");
  }
  return wrap_buffer(bytes, nbytes);
}

Object* device_library(Object*, Selector, Object* source, Object* options, Object** error) {
  const auto* text = expect<String>(source, "newLibraryWithSource:");
  if (options != nullptr) {
    (void)expect<CompileOptions>(options, "options of newLibraryWithSource:");
  }
  if (text == nullptr) {
    return nullptr;
  }
  std::string reason;
  Library* library = make_library(text->text, reason);
  if (library == nullptr) {
    set_error(error, reason);
  }
  return library;
}

Object* make_pipeline(const Function* function, Object** error) {
  if (function == nullptr) {
    set_error(error, "a pipeline without a function");
    return nullptr;
  }
  if (happens(faults.pipeline)) {
    set_error(error, "injected fault: no pipeline");
    return nullptr;
  }
  ++counters.pipelines;
  return new Pipeline(function->kernel);
}

Object* device_pipeline(Object*, Selector, Object* function, Object** error) {
  return make_pipeline(expect<Function>(function, "newComputePipelineStateWithFunction:"), error);
}

Object* device_pipeline_of(Object*, Selector, Object* descriptor, unsigned long,
                           Object** reflection, Object** error) {
  if (reflection != nullptr) {
    *reflection = nullptr;
  }
  const auto* given =
      expect<PipelineDescriptor>(descriptor, "newComputePipelineStateWithDescriptor:");
  return make_pipeline(given == nullptr ? nullptr : given->function.get(), error);
}

Object* device_archive(Object*, Selector, Object* descriptor, Object** error) {
  const auto* given = expect<ArchiveDescriptor>(descriptor, "newBinaryArchiveWithDescriptor:");
  if (given != nullptr && !given->path.empty() && ::access(given->path.c_str(), R_OK) != 0) {
    set_error(error, "there is no archive " + given->path);
    return nullptr;
  }
  return new Archive();
}

Object* options_new(Object*, Selector) {
  return new CompileOptions();
}
void options_set(Object*, Selector, unsigned long) {}
Object* descriptor_new(Object*, Selector) {
  return new PipelineDescriptor();
}
void descriptor_set_function(Object* self, Selector, Object* function) {
  auto* given = expect<Function>(function, "setComputeFunction:");
  static_cast<PipelineDescriptor*>(self)->function = Reference<Function>(given);
}
void descriptor_set_archives(Object*, Selector, Object* archives) {
  const auto* array = archives == nullptr ? nullptr : expect<Array>(archives, "setBinaryArchives:");
  if (array != nullptr) {
    (void)expect<Archive>(array->element.get(), "an element of setBinaryArchives:");
  }
}
Object* archive_descriptor_new(Object*, Selector) {
  return new ArchiveDescriptor();
}
void archive_descriptor_set_url(Object* self, Selector, Object* url) {
  const auto* given = url == nullptr ? nullptr : expect<Url>(url, "setUrl:");
  static_cast<ArchiveDescriptor*>(self)->path = given == nullptr ? "" : given->path;
}
bool archive_add(Object*, Selector, Object* descriptor, Object**) {
  return expect<PipelineDescriptor>(descriptor, "addComputePipelineFunctionsWithDescriptor:") !=
         nullptr;
}
bool archive_write(Object*, Selector, Object* url, Object** error) {
  const auto* given = expect<Url>(url, "serializeToURL:");
  if (given == nullptr || !(std::ofstream(given->path) << "archive of the Metal stand-in\n")) {
    set_error(error, "the archive cannot be written");
    return false;
  }
  return true;
}

const MethodEntry kDeviceMethods[] = {
    {"name", as_method(device_name)},
    {"maxThreadsPerThreadgroup", as_method(device_max_threads)},
    {"supportsFamily:", as_method(device_supports)},
    {"recommendedMaxWorkingSetSize", as_method(device_working_set)},
    {"currentAllocatedSize", as_method(device_allocated)},
    {"maxBufferLength", as_method(device_max_buffer)},
    {"maxThreadgroupMemoryLength", as_method(device_max_group_memory)},
    {"hasUnifiedMemory", as_method(device_unified)},
    {"newCommandQueue", as_method(device_queue)},
    {"newBufferWithLength:options:", as_method(device_buffer)},
    {"newBufferWithBytes:length:options:", as_method(device_buffer_of)},
    {"newBufferWithBytesNoCopy:length:options:deallocator:", as_method(device_buffer_around)},
    {"newLibraryWithSource:options:error:", as_method(device_library)},
    {"newComputePipelineStateWithFunction:error:", as_method(device_pipeline)},
    {"newComputePipelineStateWithDescriptor:options:reflection:error:",
     as_method(device_pipeline_of)},
    {"newBinaryArchiveWithDescriptor:error:", as_method(device_archive)},
    STAND_IN_OBJECT_METHODS};
const MethodEntry kOptionsMethods[] = {{"setLanguageVersion:", as_method(options_set)},
                                       {"setMathMode:", as_method(options_set)},
                                       {"setFastMathEnabled:", as_method(options_set)},
                                       STAND_IN_OBJECT_METHODS};
const MethodEntry kDescriptorMethods[] = {
    {"setComputeFunction:", as_method(descriptor_set_function)},
    {"setBinaryArchives:", as_method(descriptor_set_archives)},
    STAND_IN_OBJECT_METHODS};
const MethodEntry kArchiveDescriptorMethods[] = {{"setUrl:", as_method(archive_descriptor_set_url)},
                                                 STAND_IN_OBJECT_METHODS};
const MethodEntry kArchiveMethods[] = {
    {"addComputePipelineFunctionsWithDescriptor:error:", as_method(archive_add)},
    {"serializeToURL:error:", as_method(archive_write)},
    STAND_IN_OBJECT_METHODS};
const MethodEntry kOptionsClassMethods[] = {{"new", as_method(options_new)}};
const MethodEntry kDescriptorClassMethods[] = {{"new", as_method(descriptor_new)}};
const MethodEntry kArchiveDescriptorClassMethods[] = {{"new", as_method(archive_descriptor_new)}};
const MethodEntry kNoMethods[] = {{"class", nullptr}};

Class device_class = make_class("MTLDevice", kDeviceMethods);
Class options_class = make_class("MTLCompileOptions", kOptionsMethods);
Class descriptor_class = make_class("MTLComputePipelineDescriptor", kDescriptorMethods);
Class archive_descriptor_class =
    make_class("MTLBinaryArchiveDescriptor", kArchiveDescriptorMethods);
Class archive_class = make_class("MTLBinaryArchive", kArchiveMethods);
Class options_class_class = make_class("MTLCompileOptions class", kOptionsClassMethods);
Class descriptor_class_class =
    make_class("MTLComputePipelineDescriptor class", kDescriptorClassMethods);
Class archive_descriptor_class_class =
    make_class("MTLBinaryArchiveDescriptor class", kArchiveDescriptorClassMethods);
Class no_class = make_class("class", kNoMethods);
const RegisteredClass registered[] = {{device_class, &no_class},
                                      {options_class, &options_class_class},
                                      {descriptor_class, &descriptor_class_class},
                                      {archive_descriptor_class, &archive_descriptor_class_class},
                                      {archive_class, &no_class}};

Device::Device() : Object(&device_class) {}
CompileOptions::CompileOptions() : Object(&options_class) {}
PipelineDescriptor::PipelineDescriptor() : Object(&descriptor_class) {}
ArchiveDescriptor::ArchiveDescriptor() : Object(&archive_descriptor_class) {}
Archive::Archive() : Object(&archive_class) {}

}  // namespace
}  // namespace stand_in

/// The caller owns a reference; the device itself stays.
extern "C" __attribute__((visibility("default"))) stand_in::Object* MTLCreateSystemDefaultDevice() {
  static auto* device = new stand_in::Device();
  return stand_in::retain(device);
}
