#pragma once

#include "runner/flatbuffer.h"

/// The fields of ExecuTorch's schemas that its runtime reads: `schema/program.fbs` and
/// `extension/flat_tensor/serialize/flat_tensor.fbs` in its wheel, with which
/// tests/unit/test_program_schema.py compares them. A namespace has a table's name.
namespace aoti_plugins::runner::schema {

inline constexpr char kProgramIdentifier[] = "ET12";
inline constexpr char kDataIdentifier[] = "FT01";

namespace program {
inline constexpr Field version{0, "version"};
inline constexpr Field execution_plan{1, "execution_plan"};
inline constexpr Field constant_buffer{2, "constant_buffer"};
inline constexpr Field backend_delegate_data{3, "backend_delegate_data"};
inline constexpr Field segments{4, "segments"};
inline constexpr Field constant_segment{5, "constant_segment"};
inline constexpr Field mutable_data_segments{6, "mutable_data_segments"};
inline constexpr Field named_data{7, "named_data"};
}  // namespace program

namespace buffer {
inline constexpr Field storage{0, "storage"};
}  // namespace buffer

namespace backend_delegate_inline_data {
inline constexpr Field data{0, "data"};
}  // namespace backend_delegate_inline_data

namespace data_segment {
inline constexpr Field offset{0, "offset"};
inline constexpr Field size{1, "size"};
}  // namespace data_segment

namespace subsegment_offsets {
inline constexpr Field segment_index{0, "segment_index"};
inline constexpr Field offsets{1, "offsets"};
}  // namespace subsegment_offsets

namespace named_data {
inline constexpr Field key{0, "key"};
inline constexpr Field segment_index{1, "segment_index"};
inline constexpr Field tensor_layout{2, "tensor_layout"};  ///< in data files
}  // namespace named_data

namespace execution_plan {
inline constexpr Field name{0, "name"};
inline constexpr Field container_meta_type{1, "container_meta_type"};
inline constexpr Field values{2, "values"};
inline constexpr Field inputs{3, "inputs"};
inline constexpr Field outputs{4, "outputs"};
inline constexpr Field chains{5, "chains"};
inline constexpr Field operators{6, "operators"};
inline constexpr Field delegates{7, "delegates"};
inline constexpr Field non_const_buffer_sizes{8, "non_const_buffer_sizes"};
inline constexpr Field non_const_buffer_device{9, "non_const_buffer_device"};
}  // namespace execution_plan

namespace container_metadata {
inline constexpr Field encoded_inp_str{0, "encoded_inp_str"};
inline constexpr Field encoded_out_str{1, "encoded_out_str"};
}  // namespace container_metadata

namespace non_const_buffer_device {
inline constexpr Field buffer_idx{0, "buffer_idx"};
inline constexpr Field device_type{1, "device_type"};
inline constexpr Field device_index{2, "device_index"};
}  // namespace non_const_buffer_device

namespace evalue {
inline constexpr Field val_type{0, "val_type"};
inline constexpr Field val{1, "val"};
}  // namespace evalue

namespace tensor {
inline constexpr Field scalar_type{0, "scalar_type"};
inline constexpr Field sizes{2, "sizes"};
inline constexpr Field dim_order{3, "dim_order"};
inline constexpr Field data_buffer_idx{5, "data_buffer_idx"};
inline constexpr Field allocation_info{6, "allocation_info"};
inline constexpr Field shape_dynamism{8, "shape_dynamism"};
inline constexpr Field extra_tensor_info{9, "extra_tensor_info"};
}  // namespace tensor

namespace extra_tensor_info {
inline constexpr Field fully_qualified_name{1, "fully_qualified_name"};
inline constexpr Field location{2, "location"};
inline constexpr Field device_type{3, "device_type"};
inline constexpr Field device_index{4, "device_index"};
}  // namespace extra_tensor_info

namespace allocation_details {
inline constexpr Field memory_id{0, "memory_id"};
inline constexpr Field memory_offset_low{1, "memory_offset_low"};
inline constexpr Field memory_offset_high{2, "memory_offset_high"};
}  // namespace allocation_details

/// The tables of lists.
namespace tensor_list {
inline constexpr Field items{0, "items"};
}  // namespace tensor_list

namespace string {
inline constexpr Field string_val{0, "string_val"};
}  // namespace string

namespace chain {
inline constexpr Field instructions{2, "instructions"};
}  // namespace chain

namespace instruction {
inline constexpr Field instr_args_type{0, "instr_args_type"};
inline constexpr Field instr_args{1, "instr_args"};
}  // namespace instruction

namespace kernel_call {
inline constexpr Field op_index{0, "op_index"};
inline constexpr Field args{1, "args"};
}  // namespace kernel_call

namespace delegate_call {
inline constexpr Field delegate_index{0, "delegate_index"};
inline constexpr Field args{1, "args"};
}  // namespace delegate_call

namespace move_call {
inline constexpr Field move_from{0, "move_from"};
inline constexpr Field move_to{1, "move_to"};
}  // namespace move_call

namespace jump_false_call {
inline constexpr Field cond_value_index{0, "cond_value_index"};
inline constexpr Field destination_instruction{1, "destination_instruction"};
}  // namespace jump_false_call

namespace free_call {
inline constexpr Field value_index{0, "value_index"};
}  // namespace free_call

namespace operator_ {
inline constexpr Field name{0, "name"};
inline constexpr Field overload{1, "overload"};
}  // namespace operator_

namespace backend_delegate {
inline constexpr Field id{0, "id"};
inline constexpr Field processed{1, "processed"};
inline constexpr Field compile_specs{2, "compile_specs"};
}  // namespace backend_delegate

namespace backend_delegate_data_reference {
inline constexpr Field location{0, "location"};
inline constexpr Field index{1, "index"};
}  // namespace backend_delegate_data_reference

namespace compile_spec {
inline constexpr Field key{0, "key"};
inline constexpr Field value{1, "value"};
}  // namespace compile_spec

namespace flat_tensor {
inline constexpr Field version{0, "version"};
inline constexpr Field segments{1, "segments"};
inline constexpr Field named_data{2, "named_data"};
}  // namespace flat_tensor

namespace tensor_layout {
inline constexpr Field scalar_type{0, "scalar_type"};
inline constexpr Field sizes{1, "sizes"};
inline constexpr Field dim_order{2, "dim_order"};
}  // namespace tensor_layout

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
