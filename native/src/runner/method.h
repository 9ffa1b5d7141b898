#pragma once

#include <aoti_plugins/runner.h>
#include <executorch/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch/runtime/core/device_memory_buffer.h>
#include <executorch/runtime/core/hierarchical_allocator.h>
#include <executorch/runtime/executor/memory_manager.h>
#include <executorch/runtime/executor/method.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runner/call_trace.h"
#include "runner/options.h"
#include "runner/program.h"
#include "runner/state_group.h"
#include "runner/value.h"
#include "runner/zeroed_memory.h"

namespace aoti_plugins::runner {

/// One instance of a method, with its memory.
class MethodInstance {
 public:
  /// Whose mutable buffers a method has.
  struct StateChoice {
    const MethodInstance* of = nullptr;  ///< this method's; null: the program's
    bool own = false;                    ///< or none that others have
    bool traced = false;                 ///< keep what happens in calls for `trace()`
  };

  /// Loads a method with options for its delegates; 0, or a code after `failed()`.
  static int32_t load(std::shared_ptr<ProgramFile> file, const std::string& name, Options* options,
                      StateChoice state, std::unique_ptr<MethodInstance>* ret);

  size_t input_count() const { return inputs_.size(); }
  size_t output_count() const { return outputs_.size(); }
  const aotip_value& input_info(size_t index) const { return inputs_[index]->info(); }
  const aotip_value& output_info(size_t index) const { return outputs_[index]->info(); }

  /// Gives an output memory of the caller's; null data gives it its own again.
  int32_t set_output(size_t index, const aotip_value& memory);

  int32_t execute(const aotip_value* inputs, aotip_value* outputs);

  /// Whether calls can be begun and finished apart.
  bool can_begin() const;
  int32_t begin(const aotip_value* inputs);
  int32_t finish(aotip_value* outputs);

  /// What happened in the last call; null where the method was not loaded for that.
  const CallTrace* trace() const { return trace_.get(); }

 private:
  void join_state(StateChoice state);
  int32_t plan_memory(const ::executorch::runtime::MethodMeta& meta);
  std::shared_ptr<ZeroedMemory> state_arena(size_t nbytes);
  /// Held while the arena of the state is in use; nothing where the method does not use it.
  std::unique_lock<std::mutex> lock_arena();
  int32_t check_sharing(const ::executorch::runtime::MethodMeta& meta,
                        const MethodInstance& state_of) const;
  int32_t describe(const ::executorch::runtime::MethodMeta& meta);
  int32_t give_outputs_memory();
  int32_t give_output_gpu_memory(size_t index, ::executorch::aten::Device device);
  void look_at_inputs(bool are_read_in_place);
  void look_at_outputs();
  int32_t mark_input(size_t index, const ::executorch::runtime::EValue& input);
  int32_t set_input(size_t index, const aotip_value& value);
  int32_t point_input(size_t index, const aotip_value& value);
  bool is_in_output(const void* data, size_t nbytes) const;
  int32_t run();
  int32_t run_on(const aotip_value* inputs);
  void describe_outputs(aotip_value* outputs);
  int32_t check_begin() const;
  void put_back_inputs();

  std::string name_;
  std::unique_ptr<CallTrace> trace_;  ///< before the method, which uses it
  std::shared_ptr<ProgramFile> file_;
  std::vector<std::shared_ptr<ZeroedMemory>> buffers_;
  std::shared_ptr<StateGroup> state_;
  bool plans_state_ = false;  ///< ExecuTorch keeps buffers in the state's arena
  size_t shared_nbytes_ = 0;  ///< planned memory that is another method's, too
  std::vector<::executorch::runtime::DeviceMemoryBuffer> device_buffers_;
  std::vector<::executorch::aten::Device> devices_;
  std::vector<::executorch::runtime::Span<uint8_t>> spans_;
  std::unique_ptr<::executorch::runtime::HierarchicalAllocator> planned_;
  ::executorch::extension::MallocMemoryAllocator method_allocator_;
  ::executorch::extension::MallocMemoryAllocator temp_allocator_;
  std::optional<::executorch::runtime::MemoryManager> memory_;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<std::unique_ptr<Value>> outputs_;
  std::vector<bool> dynamic_inputs_;
  std::vector<bool> gpu_inputs_;       // planned on a GPU
  std::vector<bool> in_place_inputs_;  // read where the caller has them, though they are planned
  /// Planned memory of inputs that are memory of the caller's in this call.
  std::vector<std::pair<size_t, void*>> replaced_inputs_;
  std::vector<bool> marked_inputs_;
  bool takes_cuda_ = false;
  /// The method is one call of a CUDA delegate, so what it gives comes from there.
  bool all_on_cuda_ = false;
  bool outputs_may_be_late_ = true;
  size_t n_begun_ = 0;
  struct OwnOutput {
    void* data = nullptr;
    int32_t device_type = 0;
    bool replaced = false;
  };
  std::vector<OwnOutput> own_outputs_;
  std::vector<ZeroedMemory> output_memory_;
  std::optional<::executorch::runtime::Method> method_;
};

}  // namespace aoti_plugins::runner
