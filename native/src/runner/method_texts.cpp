#include "runner/method_texts.h"

#include <aoti_plugins/runner.h>

#include "runner/failure.h"
#include "runner/flatbuffer.h"
#include "runner/program_schema.h"

namespace aoti_plugins::runner {
namespace {

/// Must match INTERFACE_COMPILE_SPEC_KEY in aoti_plugins/compile_specs.py.
constexpr std::string_view kInterfaceKey = "aoti_interface";

FlatTable find_plan(const FlatTable& program, std::string_view method) {
  const FlatTables plans = program.tables(schema::program::execution_plan);
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].text(schema::execution_plan::name) == method) {
      return plans[i];
    }
  }
  return {};
}

/// One of the method's delegates carries it.
std::string_view interface_of(const FlatTable& plan) {
  const FlatTables delegates = plan.find_tables(schema::execution_plan::delegates);
  for (size_t i = 0; i < delegates.size(); ++i) {
    const FlatTables specs = delegates[i].find_tables(schema::backend_delegate::compile_specs);
    for (size_t j = 0; j < specs.size(); ++j) {
      if (specs[j].find_text(schema::compile_spec::key) == kInterfaceKey) {
        const auto value = specs[j].find_numbers<uint8_t>(schema::compile_spec::value);
        return {reinterpret_cast<const char*>(value.data()), value.size()};
      }
    }
  }
  return {};
}

std::string_view container_of(const FlatTable& plan, Field field) {
  const FlatTable container = plan.find_table(schema::execution_plan::container_meta_type);
  return container ? container.find_text(field) : std::string_view();
}

}  // namespace

int32_t find_method_text(const ProgramFile& file, std::string_view method, int32_t which,
                         std::string_view* ret_text) {
  const auto name = std::string(method);
  try {
    FlatBytes bytes(static_cast<const uint8_t*>(file.flatbuffer().data()),
                    file.flatbuffer().size());
    const FlatTable plan = find_plan(FlatTable::root(bytes, schema::kProgramIdentifier), method);
    if (!plan) {
      return failed(Error::InvalidArgument, "the program has no method '%s'", name.c_str());
    }
    switch (which) {
      case AOTIP_TEXT_INPUT_SPEC:
        *ret_text = container_of(plan, schema::container_metadata::encoded_inp_str);
        return 0;
      case AOTIP_TEXT_OUTPUT_SPEC:
        *ret_text = container_of(plan, schema::container_metadata::encoded_out_str);
        return 0;
      case AOTIP_TEXT_INTERFACE:
        *ret_text = interface_of(plan);
        return 0;
      default:
        return failed(Error::InvalidArgument, "there is no text %d of a method", which);
    }
  } catch (const Damaged& found) {
    return failed(Error::InvalidProgram,
                  "what the program says of method '%s' is damaged (%s): lower the model again",
                  name.c_str(), found.what());
  }
}

}  // namespace aoti_plugins::runner
