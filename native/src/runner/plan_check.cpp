#include "runner/plan_check.h"

#include <executorch/runtime/core/portable_type/device.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "runner/kernel_signatures.h"
#include "runner/tensor_check.h"

namespace aoti_plugins::runner {
namespace {

using schema::InstructionArguments;
using schema::TensorDataLocation;
using Type = schema::KernelTypes;

/// Gives a tensor the memory of another; the last argument but one is the new tensor.
constexpr char kView[] = "executorch_prim::et_view.default";

const char* type_name(Type type) {
  const char* const names[] = {"nothing",
                               "none",
                               "an int",
                               "a bool",
                               "a float",
                               "a tensor",
                               "a string",
                               "a list of ints",
                               "a list of floats",
                               "a list of bools",
                               "a list of tensors",
                               "a list of tensors that may be missing"};
  return names[static_cast<size_t>(type)];
}

void check_device(int8_t type, int8_t index) {
  const auto count = static_cast<int8_t>(::executorch::runtime::etensor::kNumDeviceTypes);
  if (type < 0 || type >= count || index < 0) {
    damaged("device type %d with index %d, which is not known", type, index);
  }
}

/// Whether a kernel's argument, by its letter, may be of a type; of one in lower case it may be
/// none. `P` is looked at elsewhere.
bool takes(char letter, Type type) {
  constexpr char kLetters[] = "--IBDTCLFVEG";  // of the types, in their order
  const auto upper = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  if (letter != upper && type == Type::kNull) {
    return true;
  }
  if (upper == 'S' || upper == 'P') {
    return type == Type::kInt || type == Type::kDouble || type == Type::kBool;
  }
  return upper == kLetters[static_cast<size_t>(type)];
}

}  // namespace

void PlanCheck::check() {
  check_buffers();
  check_values();
  check_ports();
  check_delegates();
  read_operators();
  const FlatTables chains = plan_.tables(schema::execution_plan::chains);
  for (size_t i = 0; i < chains.size(); ++i) {
    check_chain(chains[i].tables(schema::chain::instructions));
  }
}

void PlanCheck::check_buffers() {
  // The first one is not used: what is planned counts from 1.
  const auto sizes = plan_.numbers<int64_t>(schema::execution_plan::non_const_buffer_sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0) {
      damaged("buffer %zu has %lld bytes", i, static_cast<long long>(sizes[i]));
    }
    buffer_nbytes_.push_back(sizes[i]);
  }
  const FlatTables devices = plan_.find_tables(schema::execution_plan::non_const_buffer_device);
  for (size_t i = 0; i < devices.size(); ++i) {
    const FlatTable device = devices[i];
    const auto index = device.number<int32_t>(schema::non_const_buffer_device::buffer_idx);
    if (index < 0 || static_cast<size_t>(index) >= buffer_nbytes_.size()) {
      damaged("a device of buffer %d, there are %zu", index, buffer_nbytes_.size());
    }
    check_device(device.number<int8_t>(schema::non_const_buffer_device::device_type),
                 device.number<int8_t>(schema::non_const_buffer_device::device_index));
  }
}

void PlanCheck::check_values() {
  const FlatTables values = plan_.tables(schema::execution_plan::values);
  values_.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const auto type = values[i].number<uint8_t>(schema::evalue::val_type);
    if (type < static_cast<uint8_t>(Type::kNull) ||
        type > static_cast<uint8_t>(Type::kOptionalTensorList)) {
      damaged("value %zu is of type %u, which is not known", i, type);
    }
    values_[i].type = static_cast<Type>(type);
  }
  for (size_t i = 0; i < values.size(); ++i) {
    check_value(values[i].table(schema::evalue::val), i);
  }
}

void PlanCheck::check_value(const FlatTable& found, size_t index) {
  constexpr Field items = schema::tensor_list::items;
  switch (values_[index].type) {
    case Type::kTensor:
      check_tensor(found, &values_[index]);
      return;
    case Type::kString:
      (void)found.text(schema::string::string_val);
      return;
    case Type::kIntList:
      check_ints(found.numbers<int64_t>(items));
      return;
    case Type::kDoubleList:
      (void)found.numbers<double>(items);
      return;
    case Type::kBoolList:
      (void)found.numbers<uint8_t>(items);
      return;
    case Type::kTensorList:
    case Type::kOptionalTensorList:
      check_tensors(found.numbers<int32_t>(items), index);
      return;
    default:
      return;
  }
}

void PlanCheck::check_ints(const FlatVector<int64_t>& items) const {
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i] < 0 || static_cast<uint64_t>(items[i]) >= values_.size() ||
        values_[static_cast<size_t>(items[i])].type != Type::kInt) {
      damaged("value %lld is in a list of ints and is none", static_cast<long long>(items[i]));
    }
  }
}

void PlanCheck::check_tensors(const Indices& items, size_t index) {
  const bool optional = values_[index].type == Type::kOptionalTensorList;
  for (size_t i = 0; i < items.size(); ++i) {
    if (optional && items[i] == -1) {
      continue;
    }
    const size_t item = value_index(items[i], "an item of a list");
    const Type type = values_[item].type;
    // Values are made one after another, and the list takes those that are there.
    if (item >= index || (type != Type::kTensor && !(optional && type == Type::kNull))) {
      damaged("value %zu, %s, is in the list of tensors that is value %zu", item, type_name(type),
              index);
    }
  }
  values_[index].items = items;
}

void PlanCheck::check_tensor(const FlatTable& tensor, Value* value) {
  const TensorBytes bytes = check_tensor_layout(tensor, schema::tensor::scalar_type,
                                                schema::tensor::sizes, schema::tensor::dim_order);
  const FlatTable extra = tensor.find_table(schema::tensor::extra_tensor_info);
  const auto location =
      static_cast<TensorDataLocation>(extra.number<int8_t>(schema::extra_tensor_info::location));
  check_device(extra.number<int8_t>(schema::extra_tensor_info::device_type),
               extra.number<int8_t>(schema::extra_tensor_info::device_index));
  const bool is_external = location == TensorDataLocation::kExternal;
  const auto data = tensor.number<uint32_t>(schema::tensor::data_buffer_idx);
  const FlatTable allocation = tensor.find_table(schema::tensor::allocation_info);
  if (location != TensorDataLocation::kSegment && !is_external) {
    damaged("a tensor is at location %d, which is not known", static_cast<int>(location));
  }
  if (is_external && extra.text(schema::extra_tensor_info::fully_qualified_name).empty()) {
    damaged("a tensor of a data file has no name");
  }
  if (allocation) {
    check_planned(allocation, bytes.nbytes, bytes.itemsize);
  }
  if (data > 0 && !is_external) {
    if (allocation) {
      shared_.check_initial_value(data, bytes.nbytes, bytes.itemsize);
    } else {
      shared_.check_constant(data, bytes.nbytes, bytes.itemsize);
    }
  }
  value->has_memory = allocation || data > 0 || is_external || bytes.nbytes == 0;
}

void PlanCheck::check_planned(const FlatTable& allocation, size_t nbytes, size_t itemsize) const {
  const auto id = allocation.number<uint32_t>(schema::allocation_details::memory_id);
  const uint64_t offset =
      allocation.number<uint32_t>(schema::allocation_details::memory_offset_low) |
      static_cast<uint64_t>(
          allocation.number<uint32_t>(schema::allocation_details::memory_offset_high))
          << 32;
  if (id == 0 || id >= buffer_nbytes_.size()) {
    damaged("a tensor is planned in buffer %u, there are %zu", id, buffer_nbytes_.size());
  }
  const auto size = static_cast<uint64_t>(buffer_nbytes_[id]);
  if (offset > size || nbytes > size - offset || offset % itemsize != 0) {
    damaged("a tensor of %zu bytes is planned at %llu of a buffer of %llu", nbytes,
            static_cast<unsigned long long>(offset), static_cast<unsigned long long>(size));
  }
}

size_t PlanCheck::value_index(int32_t index, const char* what) const {
  if (index < 0 || static_cast<size_t>(index) >= values_.size()) {
    damaged("%s is value %d, there are %zu", what, index, values_.size());
  }
  return static_cast<size_t>(index);
}

void PlanCheck::check_ports() {
  for (const Field field : {schema::execution_plan::inputs, schema::execution_plan::outputs}) {
    const auto ports = plan_.numbers<int32_t>(field);
    for (size_t i = 0; i < ports.size(); ++i) {
      // The caller gives those memory that have none.
      values_[value_index(ports[i], field.name)].has_memory = true;
    }
  }
}

void PlanCheck::check_delegates() {
  const FlatTables delegates = plan_.tables(schema::execution_plan::delegates);
  delegate_count_ = delegates.size();
  for (size_t i = 0; i < delegates.size(); ++i) {
    const FlatTable delegate = delegates[i];
    if (delegate.text(schema::backend_delegate::id).empty()) {
      damaged("delegate %zu has no backend", i);
    }
    const FlatTable processed = delegate.table(schema::backend_delegate::processed);
    shared_.check_delegate_data(
        static_cast<schema::DataLocation>(
            processed.number<int8_t>(schema::backend_delegate_data_reference::location)),
        processed.number<uint32_t>(schema::backend_delegate_data_reference::index));
    const FlatTables specs = delegate.tables(schema::backend_delegate::compile_specs);
    for (size_t spec = 0; spec < specs.size(); ++spec) {
      const FlatTable pair = specs[spec];
      (void)pair.text(schema::compile_spec::key);
      (void)pair.numbers<uint8_t>(schema::compile_spec::value);
    }
  }
}

void PlanCheck::read_operators() {
  const FlatTables operators = plan_.find_tables(schema::execution_plan::operators);
  for (size_t i = 0; i < operators.size(); ++i) {
    const FlatTable op = operators[i];
    std::string name(op.text(schema::operator_::name));
    const std::string_view overload = op.text(schema::operator_::overload);
    operators_.push_back(std::move(name.append(overload.empty() ? "" : ".").append(overload)));
  }
}

void PlanCheck::check_chain(const FlatTables& instructions) {
  for (size_t i = 0; i < instructions.size(); ++i) {
    check_instruction(instructions, i);
  }
}

void PlanCheck::check_instruction(const FlatTables& instructions, size_t index) {
  const FlatTable instruction = instructions[index];
  const auto type = instruction.number<uint8_t>(schema::instruction::instr_args_type);
  const FlatTable call = instruction.table(schema::instruction::instr_args);
  switch (static_cast<InstructionArguments>(type)) {
    case InstructionArguments::kKernelCall:
      check_kernel_call(call);
      return;
    case InstructionArguments::kDelegateCall:
      check_delegate_call(call);
      return;
    case InstructionArguments::kMoveCall:
      check_move(call);
      return;
    case InstructionArguments::kJumpFalseCall:
      check_jump(instructions, index, call);
      return;
    case InstructionArguments::kFreeCall:
      check_free(call);
      return;
    default:
      damaged("instruction %zu is of type %u, which is not known", index, type);
  }
}

void PlanCheck::check_has_memory(size_t index) const {
  const Value& value = values_[index];
  if (!value.has_memory) {
    damaged("an instruction takes value %zu, a tensor that nothing has given memory", index);
  }
  for (size_t i = 0; i < value.items.size(); ++i) {
    if (value.items[i] >= 0) {
      check_has_memory(static_cast<size_t>(value.items[i]));
    }
  }
}

void PlanCheck::check_kernel_call(const FlatTable& call) {
  const auto index = call.number<int32_t>(schema::kernel_call::op_index);
  if (index < 0 || static_cast<size_t>(index) >= operators_.size()) {
    damaged("a call of operator %d, there are %zu", index, operators_.size());
  }
  const std::string& op = operators_[static_cast<size_t>(index)];
  const auto args = call.numbers<int32_t>(schema::kernel_call::args);
  const bool is_view = op == kView && args.size() > 2;
  for (size_t i = 0; i < args.size(); ++i) {
    const size_t value = value_index(args[i], "an argument");
    if (!is_view || i < 2) {
      check_has_memory(value);
    }
  }
  check_arguments(op, args);
  if (is_view) {
    values_[static_cast<size_t>(args[2])].has_memory = true;
  }
}

void PlanCheck::check_arguments(const std::string& op, const Indices& args) const {
  const char* signature = kernel_signature(op);
  // Of other operators only their kernels know what they take.
  const std::string_view letters = signature != nullptr ? signature : "";
  if (args.size() < letters.size()) {
    damaged("%s takes %zu arguments, found %zu", op.c_str(), letters.size(), args.size());
  }
  bool has_float = false;
  for (size_t i = 0; i < letters.size(); ++i) {
    const Type type = values_[static_cast<size_t>(args[i])].type;
    const Type promoted = has_float ? Type::kDouble : Type::kInt;
    if (!takes(letters[i], type) || (letters[i] == 'P' && type != promoted)) {
      damaged("argument %zu of %s is %s", i, op.c_str(), type_name(type));
    }
    has_float = has_float || type == Type::kDouble;
  }
}

void PlanCheck::check_delegate_call(const FlatTable& call) const {
  const auto index = call.number<int32_t>(schema::delegate_call::delegate_index);
  if (index < 0 || static_cast<size_t>(index) >= delegate_count_) {
    damaged("a call of delegate %d, there are %zu", index, delegate_count_);
  }
  const auto args = call.numbers<int32_t>(schema::delegate_call::args);
  for (size_t i = 0; i < args.size(); ++i) {
    check_has_memory(value_index(args[i], "an argument"));
  }
}

void PlanCheck::check_move(const FlatTable& call) {
  const size_t from = value_index(call.number<int32_t>(schema::move_call::move_from), "a source");
  const size_t to = value_index(call.number<int32_t>(schema::move_call::move_to), "a target");
  check_has_memory(from);
  if (values_[from].type != values_[to].type) {
    damaged("value %zu, %s, is moved to value %zu, %s", from, type_name(values_[from].type), to,
            type_name(values_[to].type));
  }
  values_[to].has_memory = true;
}

void PlanCheck::check_jump(const FlatTables& instructions, size_t index,
                           const FlatTable& call) const {
  const size_t condition =
      value_index(call.number<int32_t>(schema::jump_false_call::cond_value_index), "a condition");
  const Type type = values_[condition].type;
  if (type != Type::kTensor && type != Type::kBool) {
    damaged("the condition of a jump is %s", type_name(type));
  }
  check_has_memory(condition);
  const auto destination = call.number<int32_t>(schema::jump_false_call::destination_instruction);
  if (destination < 0 || static_cast<size_t>(destination) > instructions.size()) {
    damaged("a jump to instruction %d, there are %zu", destination, instructions.size());
  }
  for (auto i = static_cast<size_t>(destination); i <= index; ++i) {
    if (i == index) {
      damaged("instruction %zu jumps back to %d, and nothing between changes its condition", index,
              destination);
    }
    if (may_write(instructions[i], condition)) {
      return;
    }
  }
}

bool PlanCheck::may_write(const FlatTable& instruction, size_t value) const {
  const auto type = instruction.number<uint8_t>(schema::instruction::instr_args_type);
  const FlatTable call = instruction.table(schema::instruction::instr_args);
  if (static_cast<InstructionArguments>(type) == InstructionArguments::kMoveCall) {
    return call.number<int32_t>(schema::move_call::move_to) == static_cast<int32_t>(value);
  }
  if (static_cast<InstructionArguments>(type) > InstructionArguments::kDelegateCall) {
    return false;
  }
  static_assert(schema::kernel_call::args.id == schema::delegate_call::args.id);
  const auto args = call.numbers<int32_t>(schema::kernel_call::args);
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == static_cast<int32_t>(value)) {
      return true;
    }
  }
  return false;
}

void PlanCheck::check_free(const FlatTable& call) {
  const size_t index = value_index(call.number<int32_t>(schema::free_call::value_index), "a value");
  if (values_[index].type != Type::kTensor || values_[index].has_memory) {
    damaged("value %zu, %s, is freed, which the program has memory for", index,
            type_name(values_[index].type));
  }
}

}  // namespace aoti_plugins::runner
