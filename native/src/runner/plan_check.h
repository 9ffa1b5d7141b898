#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runner/flatbuffer.h"
#include "runner/program_schema.h"

namespace aoti_plugins::runner {

/// What methods refer to outside of themselves.
class SharedData {
 public:
  virtual ~SharedData() = default;

  /// These throw `Damaged` unless the data is there.
  virtual void check_constant(uint64_t index, size_t nbytes, size_t itemsize) const = 0;
  virtual void check_initial_value(uint64_t index, size_t nbytes, size_t itemsize) const = 0;
  virtual void check_delegate_data(schema::DataLocation location, uint64_t index) const = 0;
};

/// Checks one method: that everything that it refers to is there, that values have the memory and
/// the types that instructions take them with, and that no loop goes on for ever without looking.
class PlanCheck {
 public:
  PlanCheck(const FlatTable& plan, const SharedData& shared) : plan_(plan), shared_(shared) {}

  /// Throws `Damaged`.
  void check();

 private:
  using Type = schema::KernelTypes;
  using Indices = FlatVector<int32_t>;

  struct Value {
    Type type = Type::kNull;
    /// Whether there is memory before the method runs, or no need of it.
    bool has_memory = true;
    /// For a list of tensors.
    Indices items;
  };

  void check_buffers();
  void check_values();
  void check_value(const FlatTable& found, size_t index);
  void check_ints(const FlatVector<int64_t>& items) const;
  void check_tensors(const Indices& items, size_t index);
  void check_tensor(const FlatTable& tensor, Value* value);
  void check_planned(const FlatTable& allocation, size_t nbytes, size_t itemsize) const;
  void check_ports();
  void check_delegates();
  void read_operators();
  void check_chain(const FlatTables& instructions);
  void check_instruction(const FlatTables& instructions, size_t index);
  void check_kernel_call(const FlatTable& call);
  void check_arguments(const std::string& op, const Indices& args) const;
  void check_delegate_call(const FlatTable& call) const;
  void check_move(const FlatTable& call);
  void check_jump(const FlatTables& instructions, size_t index, const FlatTable& call) const;
  void check_free(const FlatTable& call);
  void check_has_memory(size_t index) const;
  bool may_write(const FlatTable& instruction, size_t value) const;

  /// The value that `index` counts.
  size_t value_index(int32_t index, const char* what) const;

  const FlatTable& plan_;
  const SharedData& shared_;
  std::vector<int64_t> buffer_nbytes_;
  std::vector<Value> values_;
  std::vector<std::string> operators_;
  size_t delegate_count_ = 0;
};

}  // namespace aoti_plugins::runner
