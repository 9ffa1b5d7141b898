#pragma once

#include "runner/flatbuffer.h"

/// The fields of ExecuTorch's schemas that its runtime reads: `schema/program.fbs` and
/// `extension/flat_tensor/serialize/flat_tensor.fbs` in its wheel, with which
/// tests/unit/test_program_schema.py compares them. A namespace has a table's name.
namespace aoti_plugins::runner::schema {

inline constexpr char kProgramIdentifier[] = "ET12";
inline constexpr char kDataIdentifier[] = "FT01";

#define AOTIP_FIELD(table, id, name)      \
  namespace table {                       \
  inline constexpr Field name{id, #name}; \
  }

AOTIP_FIELD(program, 0, version)
AOTIP_FIELD(program, 1, execution_plan)
AOTIP_FIELD(program, 2, constant_buffer)
AOTIP_FIELD(program, 3, backend_delegate_data)
AOTIP_FIELD(program, 4, segments)
AOTIP_FIELD(program, 5, constant_segment)
AOTIP_FIELD(program, 6, mutable_data_segments)
AOTIP_FIELD(program, 7, named_data)

AOTIP_FIELD(buffer, 0, storage)

AOTIP_FIELD(backend_delegate_inline_data, 0, data)

AOTIP_FIELD(data_segment, 0, offset)
AOTIP_FIELD(data_segment, 1, size)

AOTIP_FIELD(subsegment_offsets, 0, segment_index)
AOTIP_FIELD(subsegment_offsets, 1, offsets)

AOTIP_FIELD(named_data, 0, key)
AOTIP_FIELD(named_data, 1, segment_index)
AOTIP_FIELD(named_data, 2, tensor_layout)  ///< in data files

AOTIP_FIELD(execution_plan, 0, name)
AOTIP_FIELD(execution_plan, 1, container_meta_type)
AOTIP_FIELD(execution_plan, 2, values)
AOTIP_FIELD(execution_plan, 3, inputs)
AOTIP_FIELD(execution_plan, 4, outputs)
AOTIP_FIELD(execution_plan, 5, chains)
AOTIP_FIELD(execution_plan, 6, operators)
AOTIP_FIELD(execution_plan, 7, delegates)
AOTIP_FIELD(execution_plan, 8, non_const_buffer_sizes)
AOTIP_FIELD(execution_plan, 9, non_const_buffer_device)

AOTIP_FIELD(container_metadata, 0, encoded_inp_str)
AOTIP_FIELD(container_metadata, 1, encoded_out_str)

AOTIP_FIELD(non_const_buffer_device, 0, buffer_idx)
AOTIP_FIELD(non_const_buffer_device, 1, device_type)
AOTIP_FIELD(non_const_buffer_device, 2, device_index)

AOTIP_FIELD(evalue, 0, val_type)
AOTIP_FIELD(evalue, 1, val)

AOTIP_FIELD(tensor, 0, scalar_type)
AOTIP_FIELD(tensor, 2, sizes)
AOTIP_FIELD(tensor, 3, dim_order)
AOTIP_FIELD(tensor, 5, data_buffer_idx)
AOTIP_FIELD(tensor, 6, allocation_info)
AOTIP_FIELD(tensor, 8, shape_dynamism)
AOTIP_FIELD(tensor, 9, extra_tensor_info)

AOTIP_FIELD(extra_tensor_info, 1, fully_qualified_name)
AOTIP_FIELD(extra_tensor_info, 2, location)
AOTIP_FIELD(extra_tensor_info, 3, device_type)
AOTIP_FIELD(extra_tensor_info, 4, device_index)

AOTIP_FIELD(allocation_details, 0, memory_id)
AOTIP_FIELD(allocation_details, 1, memory_offset_low)
AOTIP_FIELD(allocation_details, 2, memory_offset_high)

/// The tables of lists.
AOTIP_FIELD(tensor_list, 0, items)

AOTIP_FIELD(string, 0, string_val)

AOTIP_FIELD(chain, 2, instructions)

AOTIP_FIELD(instruction, 0, instr_args_type)
AOTIP_FIELD(instruction, 1, instr_args)

AOTIP_FIELD(kernel_call, 0, op_index)
AOTIP_FIELD(kernel_call, 1, args)

AOTIP_FIELD(delegate_call, 0, delegate_index)
AOTIP_FIELD(delegate_call, 1, args)

AOTIP_FIELD(move_call, 0, move_from)
AOTIP_FIELD(move_call, 1, move_to)

AOTIP_FIELD(jump_false_call, 0, cond_value_index)
AOTIP_FIELD(jump_false_call, 1, destination_instruction)

AOTIP_FIELD(free_call, 0, value_index)

AOTIP_FIELD(operator_, 0, name)
AOTIP_FIELD(operator_, 1, overload)

AOTIP_FIELD(backend_delegate, 0, id)
AOTIP_FIELD(backend_delegate, 1, processed)
AOTIP_FIELD(backend_delegate, 2, compile_specs)

AOTIP_FIELD(backend_delegate_data_reference, 0, location)
AOTIP_FIELD(backend_delegate_data_reference, 1, index)

AOTIP_FIELD(compile_spec, 0, key)
AOTIP_FIELD(compile_spec, 1, value)

AOTIP_FIELD(flat_tensor, 0, version)
AOTIP_FIELD(flat_tensor, 1, segments)
AOTIP_FIELD(flat_tensor, 2, named_data)

AOTIP_FIELD(tensor_layout, 0, scalar_type)
AOTIP_FIELD(tensor_layout, 1, sizes)
AOTIP_FIELD(tensor_layout, 2, dim_order)

#undef AOTIP_FIELD

/// What `EValue.val` is.
enum class KernelTypes : uint8_t {
  kNull = 1,
  kInt,
  kBool,
  kDouble,
  kTensor,
  kString,
  kIntList,
  kDoubleList,
  kBoolList,
  kTensorList,
  kOptionalTensorList,
};

/// What `Instruction.instr_args` is.
enum class InstructionArguments : uint8_t {
  kKernelCall = 1,
  kDelegateCall,
  kMoveCall,
  kJumpFalseCall,
  kFreeCall,
};

enum class TensorDataLocation : int8_t { kSegment = 0, kExternal = 1 };
enum class DataLocation : int8_t { kInline = 0, kSegment = 1 };

}  // namespace aoti_plugins::runner::schema
