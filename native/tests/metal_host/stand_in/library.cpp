#include "library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "counters.h"
#include "foundation.h"

namespace stand_in {
namespace {

constexpr size_t kDefaultMaxThreads = 1024;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A folder that is gone with everything in it at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const char* base = std::getenv("TMPDIR");
    std::string pattern = std::string(base == nullptr ? "/tmp" : base) + "/metal_stand_in_XXXXXX";
    path_ = ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~TemporaryFolder() {
    for (const char* name : {"/source.metal", "/library.so", "/errors"}) {
      (void)::unlink((path_ + name).c_str());
    }
    (void)::rmdir(path_.c_str());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

bool load(const std::string& path, Program& program, std::string& reason) {
  (void)::dlopen("libm.so.6", RTLD_NOW | RTLD_GLOBAL);  // kernels are not linked with it
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    reason = ::dlerror();
    return false;
  }
  const auto get = reinterpret_cast<MetalHostKernels>(::dlsym(handle, "metal_host_kernels"));
  unsigned int abi = 0;
  program.kernels = get == nullptr ? nullptr : get(&abi, &program.count);
  if (program.kernels == nullptr || abi != METAL_HOST_ABI) {
    reason = "the compiled library has no kernels that this stand-in knows";
    return false;
  }
  return true;
}

bool build(const std::string& text, Program& program, std::string& reason) {
  const char* compiler = std::getenv("AOTI_PLUGINS_METAL_COMPILER");
  if (compiler == nullptr) {
    reason = "AOTI_PLUGINS_METAL_COMPILER does not name a compiler";
    return false;
  }
  const TemporaryFolder folder;
  const std::string source = folder.path() + "/source.metal";
  const std::string library = folder.path() + "/library.so";
  const std::string errors = folder.path() + "/errors";
  std::ofstream(source, std::ios::binary) << text;
  const std::string command =
      std::string(compiler) + " '" + source + "' '" + library + "' 2>'" + errors + "'";
  if (std::system(command.c_str()) != 0) {
    reason = read_file(errors);
    return false;
  }
  return load(library, program, reason);
}

Object* library_function(Object* self, Selector, Object* name) {
  const auto* wanted = expect<String>(name, "newFunctionWithName:");
  const Program& program = static_cast<Library*>(self)->program;
  for (unsigned int i = 0; wanted != nullptr && i < program.count; ++i) {
    if (wanted->text == program.kernels[i].name) {
      return new Function(program.kernels[i]);
    }
  }
  return nullptr;
}

Object* function_name(Object* self, Selector) {
  return autorelease(new String(static_cast<Function*>(self)->kernel.name));
}

unsigned long pipeline_max_threads(Object* self, Selector) {
  return static_cast<Pipeline*>(self)->max_threads;
}
unsigned long pipeline_width(Object*, Selector) {
  return 32;
}
unsigned long pipeline_group_memory(Object*, Selector) {
  return 0;
}

const MethodEntry kLibraryMethods[] = {{"newFunctionWithName:", as_method(library_function)},
                                       STAND_IN_OBJECT_METHODS};
const MethodEntry kFunctionMethods[] = {{"name", as_method(function_name)},
                                        STAND_IN_OBJECT_METHODS};
const MethodEntry kPipelineMethods[] = {
    {"maxTotalThreadsPerThreadgroup", as_method(pipeline_max_threads)},
    {"threadExecutionWidth", as_method(pipeline_width)},
    {"staticThreadgroupMemoryLength", as_method(pipeline_group_memory)},
    STAND_IN_OBJECT_METHODS};
const MethodEntry kNoMethods[] = {{"class", nullptr}};
Class library_class = make_class("MTLLibrary", kLibraryMethods);
Class function_class = make_class("MTLFunction", kFunctionMethods);
Class pipeline_class = make_class("MTLComputePipelineState", kPipelineMethods);
Class no_class = make_class("class", kNoMethods);
const RegisteredClass registered[] = {
    {library_class, &no_class}, {function_class, &no_class}, {pipeline_class, &no_class}};

}  // namespace

Library::Library(const Program& program_) : Object(&library_class), program(program_) {}
Function::Function(const MetalHostKernel& kernel_) : Object(&function_class), kernel(kernel_) {}
Pipeline::Pipeline(const MetalHostKernel& kernel_) : Object(&pipeline_class), kernel(kernel_) {
  max_threads = kernel.max_threads == 0 ? kDefaultMaxThreads : kernel.max_threads;
  if (thread_limit != 0 && thread_limit < max_threads) {
    max_threads = thread_limit;
  }
}

Library* make_library(const std::string& text, std::string& reason) {
  static auto* programs = new std::map<std::string, Program>();
  const std::lock_guard<std::recursive_mutex> guard(lock());
  if (happens(faults.library)) {
    reason = "program_source:1:1: error: injected fault";
    return nullptr;
  }
  ++counters.libraries;
  auto found = programs->find(text);
  if (found == programs->end()) {
    Program program;
    if (!build(text, program, reason)) {
      return nullptr;
    }
    found = programs->emplace(text, program).first;
  }
  return new Library(found->second);
}

}  // namespace stand_in
