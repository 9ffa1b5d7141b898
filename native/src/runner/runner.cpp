// The C functions of the runner: arguments checked, exceptions kept inside.

#include <aoti_plugins/runner.h>
#include <executorch/runtime/backend/interface.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runner/c_function.h"
#include "runner/method_texts.h"
#include "runner/options.h"

using namespace aoti_plugins::runner;

namespace {

int32_t out_of_range(const char* what, size_t index, size_t count) {
  return failed(Error::InvalidArgument, "there is no %s %zu, there are %zu", what, index, count);
}

/// Checks an array of a caller's for values of a method.
int32_t check_values(const char* what, const aotip_value* values, size_t count, size_t expected) {
  if (count != expected) {
    return failed(Error::InvalidArgument, "%zu %s, the method has %zu", count, what, expected);
  }
  return count == 0 || values != nullptr ? 0 : failed(Error::InvalidArgument, "%s is null", what);
}

int32_t load_method(aotip_program* program, const char* name, const aotip_option* options,
                    size_t n_options, MethodInstance::StateChoice state, aotip_method** ret_new) {
  AOTIP_CHECK_NOT_NULL(program, name, ret_new);
  if (n_options > 0) {
    AOTIP_CHECK_NOT_NULL(options);
  }
  Options read;
  if (const int32_t failure = read.read(options, n_options)) {
    return failure;
  }
  auto method = std::make_unique<aotip_method>();
  const int32_t code = MethodInstance::load(program->file, name, &read, state, &method->instance);
  if (code == 0) {
    *ret_new = method.release();
  }
  return code;
}

}  // namespace

int32_t aotip_program_load(const char* path, const char* const* data_paths, size_t n_data,
                           int32_t load_mode, aotip_program** ret_new) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(path, ret_new);
    std::vector<std::string> paths;
    for (size_t i = 0; i < n_data; ++i) {
      AOTIP_CHECK_NOT_NULL(data_paths);
      AOTIP_CHECK_NOT_NULL(data_paths[i]);
      paths.emplace_back(data_paths[i]);
    }
    if (load_mode != 0 && load_mode != 1) {
      return failed(Error::InvalidArgument, "load_mode is %d, expected 0 (map) or 1 (read)",
                    load_mode);
    }
    auto program = std::make_unique<aotip_program>();
    const int32_t code = ProgramFile::load(
        path, paths, static_cast<ProgramFile::LoadMode>(load_mode), &program->file);
    if (code == 0) {
      *ret_new = program.release();
    }
    return code;
  });
}

int32_t aotip_program_load_buffer(const void* data, size_t nbytes, aotip_program** ret_new) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(data, ret_new);
    auto program = std::make_unique<aotip_program>();
    const int32_t code = ProgramFile::load(data, nbytes, &program->file);
    if (code == 0) {
      *ret_new = program.release();
    }
    return code;
  });
}

void aotip_program_destroy(aotip_program* program) {
  delete program;
}

int32_t aotip_program_method_count(aotip_program* program, size_t* ret_count) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(program, ret_count);
    *ret_count = program->file->method_names().size();
    return 0;
  });
}

int32_t aotip_program_method_name(aotip_program* program, size_t index, const char** ret_name) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(program, ret_name);
    const auto& names = program->file->method_names();
    if (index >= names.size()) {
      return out_of_range("method", index, names.size());
    }
    *ret_name = names[index].c_str();
    return 0;
  });
}

int32_t aotip_program_method_text(aotip_program* program, const char* method, int32_t which,
                                  const char** ret_text, size_t* ret_nbytes) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(program, method, ret_text, ret_nbytes);
    std::string_view text;
    const int32_t code = find_method_text(*program->file, method, which, &text);
    if (code == 0) {
      *ret_text = text.empty() ? "" : text.data();
      *ret_nbytes = text.size();
    }
    return code;
  });
}

int32_t aotip_method_load(aotip_program* program, const char* name, aotip_method** ret_new) {
  return aotip_method_load_with(program, name, nullptr, 0, ret_new);
}

int32_t aotip_method_load_with(aotip_program* program, const char* name,
                               const aotip_option* options, size_t n_options,
                               aotip_method** ret_new) {
  return run_call(
      [&]() -> int32_t { return load_method(program, name, options, n_options, {}, ret_new); });
}

int32_t aotip_method_load_sharing(aotip_program* program, const char* name,
                                  const aotip_option* options, size_t n_options,
                                  aotip_method* state_of, aotip_method** ret_new) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(state_of);
    return load_method(program, name, options, n_options, {state_of->instance.get()}, ret_new);
  });
}

int32_t aotip_method_load_apart(aotip_program* program, const char* name,
                                const aotip_option* options, size_t n_options,
                                aotip_method** ret_new) {
  return run_call([&]() -> int32_t {
    return load_method(program, name, options, n_options, {nullptr, true}, ret_new);
  });
}

int32_t aotip_method_load_traced(aotip_program* program, const char* name,
                                 const aotip_option* options, size_t n_options,
                                 aotip_method** ret_new) {
  return run_call([&]() -> int32_t {
    return load_method(program, name, options, n_options, {nullptr, false, true}, ret_new);
  });
}

int32_t aotip_method_trace(aotip_method* method, aotip_event* events, size_t capacity,
                           size_t* ret_count) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method, ret_count);
    if (capacity > 0) {
      AOTIP_CHECK_NOT_NULL(events);
    }
    const auto* trace = method->instance->trace();
    if (trace == nullptr) {
      return failed(Error::InvalidState,
                    "the method keeps no events, load it with aotip_method_load_traced");
    }
    *ret_count = trace->events().size();
    for (size_t i = 0; i < std::min(capacity, *ret_count); ++i) {
      events[i] = trace->described(i);
    }
    return 0;
  });
}

void aotip_method_destroy(aotip_method* method) {
  const aoti_plugins::InsideLibrary inside;
  delete method;
}

int32_t aotip_method_input_count(aotip_method* method, size_t* ret_count) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method, ret_count);
    *ret_count = method->instance->input_count();
    return 0;
  });
}

int32_t aotip_method_output_count(aotip_method* method, size_t* ret_count) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method, ret_count);
    *ret_count = method->instance->output_count();
    return 0;
  });
}

int32_t aotip_method_input_info(aotip_method* method, size_t index, aotip_value* ret_info) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method, ret_info);
    if (index >= method->instance->input_count()) {
      return out_of_range("input", index, method->instance->input_count());
    }
    *ret_info = method->instance->input_info(index);
    return 0;
  });
}

int32_t aotip_method_output_info(aotip_method* method, size_t index, aotip_value* ret_info) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method, ret_info);
    if (index >= method->instance->output_count()) {
      return out_of_range("output", index, method->instance->output_count());
    }
    *ret_info = method->instance->output_info(index);
    return 0;
  });
}

int32_t aotip_method_set_output(aotip_method* method, size_t index, const aotip_value* memory) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method);
    if (index >= method->instance->output_count()) {
      return out_of_range("output", index, method->instance->output_count());
    }
    return method->instance->set_output(index, memory != nullptr ? *memory : aotip_value{});
  });
}

int32_t aotip_method_execute(aotip_method* method, const aotip_value* inputs, size_t n_inputs,
                             aotip_value* outputs, size_t n_outputs) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method);
    MethodInstance& instance = *method->instance;
    if (const int32_t code = check_values("inputs", inputs, n_inputs, instance.input_count())) {
      return code;
    }
    const int32_t code = check_values("outputs", outputs, n_outputs, instance.output_count());
    return code != 0 ? code : instance.execute(inputs, outputs);
  });
}

int32_t aotip_method_can_begin(aotip_method* method, int32_t* ret_can) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method, ret_can);
    *ret_can = method->instance->can_begin() ? 1 : 0;
    return 0;
  });
}

int32_t aotip_method_begin(aotip_method* method, const aotip_value* inputs, size_t n_inputs) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method);
    const int32_t code = check_values("inputs", inputs, n_inputs, method->instance->input_count());
    return code != 0 ? code : method->instance->begin(inputs);
  });
}

int32_t aotip_method_finish(aotip_method* method, aotip_value* outputs, size_t n_outputs) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(method);
    const int32_t code =
        check_values("outputs", outputs, n_outputs, method->instance->output_count());
    return code != 0 ? code : method->instance->finish(outputs);
  });
}

int32_t aotip_set_options(const aotip_option* options, size_t n_options) {
  return run_call([&]() -> int32_t {
    if (n_options > 0) {
      AOTIP_CHECK_NOT_NULL(options);
    }
    Options read;
    const int32_t code = read.read(options, n_options);
    return code != 0 ? code : read.set();
  });
}

int32_t aotip_get_options(const char* backend, aotip_option* options, size_t capacity,
                          size_t* ret_count) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(backend, ret_count);
    if (capacity > 0) {
      AOTIP_CHECK_NOT_NULL(options);
    }
    return get_options(backend, options, capacity, ret_count);
  });
}

size_t aotip_backend_count(void) {
  return ::executorch::runtime::get_num_registered_backends();
}

const char* aotip_backend_name(size_t index) {
  const auto name = ::executorch::runtime::get_backend_name(index);
  return name.ok() ? name.get() : nullptr;
}
