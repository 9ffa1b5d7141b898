#pragma once

/// A plain C API to load and run ExecuTorch programs, whatever delegates they use. From Python it
/// is used through ctypes (aoti_plugins/runtime), whose declarations must match.
///
/// Functions return 0, or a code of ExecuTorch's `Error`, and then `aotip_last_error()` says why;
/// out-parameters are set on success only. Null where something is expected is an error, not a
/// crash. A program and its methods may be used from several threads; one method runs one call at a
/// time, and its outputs belong to that call.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AOTIP_RUNNER_EXPORT __attribute__((visibility("default")))

typedef struct aotip_program aotip_program;
typedef struct aotip_method aotip_method;

/// What an `aotip_value` holds.
enum {
  AOTIP_TAG_NONE = 0,
  AOTIP_TAG_TENSOR = 1,
  AOTIP_TAG_INT = 2,
  AOTIP_TAG_DOUBLE = 3,
  AOTIP_TAG_BOOL = 4,
  AOTIP_TAG_OTHER = 5,
  AOTIP_TAG_STRING = 6,  ///< outputs only: `data` are its bytes, `nbytes` of them, borrowed
};

/// One input or output. Sizes and strides count elements and have `ndim` numbers; strides may be
/// null for row-major. `dtype` is PyTorch's code; `device_type` is 0 for the CPU, 1 for CUDA.
typedef struct {
  int32_t tag;
  int32_t dtype;
  int32_t ndim;
  int32_t device_type;
  const int64_t* sizes;
  const int64_t* strides;
  void* data;
  int64_t int_value;  ///< also holds bools
  double double_value;
  size_t nbytes;
} aotip_value;

/// One option of a delegate.
typedef struct {
  const char* backend;  ///< the delegate, for instance "AotiCudaBackend"
  const char* name;
  int32_t is_bool;  ///< 1 for a bool, 0 for an int
  int32_t value;    ///< of a bool 0 or 1
} aotip_option;

/// Something that took time in a call. Times are in nanoseconds of a steady clock.
typedef struct {
  const char* name;
  int32_t in_delegate;  ///< 1 for a kernel of a delegate, 0 for what ExecuTorch itself does
  int32_t instruction;  ///< of the method, from 0; -1 outside of them
  int64_t begin_ns;
  int64_t end_ns;
} aotip_event;

/// Why the last call on this thread failed; the delegate's reason where a delegate failed. Borrowed
/// until the next call on this thread.
AOTIP_RUNNER_EXPORT const char* aotip_last_error(void);

/// Loads a program. `data_paths` are files with named data (`.ptd`) that the program needs,
/// `n_data` of them. `load_mode` 0 maps the file, 1 reads it. The new program is freed with
/// `aotip_program_destroy`.
AOTIP_RUNNER_EXPORT int32_t aotip_program_load(const char* path, const char* const* data_paths,
                                               size_t n_data, int32_t load_mode,
                                               aotip_program** ret_new);

/// Loads a program from memory, which is copied.
AOTIP_RUNNER_EXPORT int32_t aotip_program_load_buffer(const void* data, size_t nbytes,
                                                      aotip_program** ret_new);

/// Null is allowed. Methods that are still there keep what they need.
AOTIP_RUNNER_EXPORT void aotip_program_destroy(aotip_program* program);

AOTIP_RUNNER_EXPORT int32_t aotip_program_method_count(aotip_program* program, size_t* ret_count);

/// Borrowed from the program.
AOTIP_RUNNER_EXPORT int32_t aotip_program_method_name(aotip_program* program, size_t index,
                                                      const char** ret_name);

/// What a program says about how a method is called.
enum {
  AOTIP_TEXT_INPUT_SPEC = 0,   ///< structure of the arguments, PyTorch's `treespec_dumps`
  AOTIP_TEXT_OUTPUT_SPEC = 1,  ///< structure of the results, likewise
  AOTIP_TEXT_INTERFACE = 2,    ///< names, bounds of sizes, constants; docs/decisions/0059
};

/// One of these texts, `*ret_nbytes` of UTF-8 without a final NUL; empty where the program has
/// none. Borrowed from the program.
AOTIP_RUNNER_EXPORT int32_t aotip_program_method_text(aotip_program* program, const char* method,
                                                      int32_t which, const char** ret_text,
                                                      size_t* ret_nbytes);

/// A new instance of a method, with memory and delegates of its own. Freed with
/// `aotip_method_destroy`.
///
/// Methods of one program share the mutable buffers that have one name. A method that is loaded
/// while it is loaded already has buffers of its own; methods that are loaded later share those of
/// the newest instances that do not have them. A buffer has its first value when the first method
/// that uses it is loaded, and lives as long as one that does. Calls of methods that share buffers
/// wait for each other.
AOTIP_RUNNER_EXPORT int32_t aotip_method_load(aotip_program* program, const char* name,
                                              aotip_method** ret_new);

/// As `aotip_method_load`, with options for this instance, `n_options` of them.
AOTIP_RUNNER_EXPORT int32_t aotip_method_load_with(aotip_program* program, const char* name,
                                                   const aotip_option* options, size_t n_options,
                                                   aotip_method** ret_new);

/// As `aotip_method_load_with`, with the mutable buffers of `state_of`, a method of the same
/// program, whatever else is loaded: those with the same names that delegates keep, and those that
/// ExecuTorch keeps where the program was made with `share_mutable_buffers`. Fails where there are
/// none. `state_of` may be destroyed first.
AOTIP_RUNNER_EXPORT int32_t aotip_method_load_sharing(aotip_program* program, const char* name,
                                                      const aotip_option* options, size_t n_options,
                                                      aotip_method* state_of,
                                                      aotip_method** ret_new);

/// As `aotip_method_load_with`, with mutable buffers that no method which is loaded has.
AOTIP_RUNNER_EXPORT int32_t aotip_method_load_apart(aotip_program* program, const char* name,
                                                    const aotip_option* options, size_t n_options,
                                                    aotip_method** ret_new);

/// As `aotip_method_load_with`, for a method that keeps what happens in its calls.
AOTIP_RUNNER_EXPORT int32_t aotip_method_load_traced(aotip_program* program, const char* name,
                                                     const aotip_option* options, size_t n_options,
                                                     aotip_method** ret_new);

/// What happened in the last call of a method that was loaded with `aotip_method_load_traced`, in
/// the order in which it began, `capacity` of it at most; `ret_count` is how much there is. Names
/// are borrowed until the next call of the method. An error for other methods.
AOTIP_RUNNER_EXPORT int32_t aotip_method_trace(aotip_method* method, aotip_event* events,
                                               size_t capacity, size_t* ret_count);

/// Null is allowed.
AOTIP_RUNNER_EXPORT void aotip_method_destroy(aotip_method* method);

AOTIP_RUNNER_EXPORT int32_t aotip_method_input_count(aotip_method* method, size_t* ret_count);
AOTIP_RUNNER_EXPORT int32_t aotip_method_output_count(aotip_method* method, size_t* ret_count);

/// What input `index` is: for a tensor its dtype, the largest sizes it may have and the strides of
/// these. No data. Borrowed from the method.
AOTIP_RUNNER_EXPORT int32_t aotip_method_input_info(aotip_method* method, size_t index,
                                                    aotip_value* ret_info);
AOTIP_RUNNER_EXPORT int32_t aotip_method_output_info(aotip_method* method, size_t index,
                                                     aotip_value* ret_info);

/// Gives an output memory of the caller's, which every call writes to from here on: `memory->data`
/// with room for `memory->nbytes`, on `memory->device_type`. A null `memory` (or null data) gives
/// it the method's own memory again. Memory of a GPU is for methods that are one delegate for that
/// GPU as a whole, and for outputs that the program plans on it, which take no other.
AOTIP_RUNNER_EXPORT int32_t aotip_method_set_output(aotip_method* method, size_t index,
                                                    const aotip_value* memory);

/// Runs the method. Inputs are borrowed for the call; one whose layout the method does not take is
/// copied. `outputs` become views of the method's memory, valid until its next call or its end, or
/// of the memory that they were given; one that is an input as it is may be a view of the caller's.
///
/// Inputs may be in memory of a GPU where the method is one delegate for it, and must be where the
/// program plans them there (`skip_h2d_for_method_inputs`); then their strides are those that the
/// method takes. Outputs that the program plans on a GPU (`skip_d2h_for_method_outputs`) come back
/// with its `device_type`. Work on the GPU is in the order of the legacy default stream, and
/// outputs in its memory may still be in the making when this returns.
AOTIP_RUNNER_EXPORT int32_t aotip_method_execute(aotip_method* method, const aotip_value* inputs,
                                                 size_t n_inputs, aotip_value* outputs,
                                                 size_t n_outputs);

/// Whether calls of the method can be begun and finished apart: it is one delegate for a GPU as a
/// whole, and its outputs are in host memory, of fixed sizes up to 4 MiB, and no inputs. Those of
/// programs for several ranks fail to begin all the same. `*ret_can` becomes 1 or 0.
AOTIP_RUNNER_EXPORT int32_t aotip_method_can_begin(aotip_method* method, int32_t* ret_can);

/// Begins a call, as `aotip_method_execute` does, and returns before its outputs are in host
/// memory. Up to two calls of a method may be begun, so that the GPU has the next one to do while
/// the outputs of one are looked at. Inputs in host memory are copied meanwhile; those on a GPU
/// must stay as they are until the call is finished, and outputs keep the memory that they have. A
/// call that fails to begin is none.
AOTIP_RUNNER_EXPORT int32_t aotip_method_begin(aotip_method* method, const aotip_value* inputs,
                                               size_t n_inputs);

/// Waits for the oldest call that was begun; `outputs` are as those of `aotip_method_execute`.
/// After a failure that call is over, too.
AOTIP_RUNNER_EXPORT int32_t aotip_method_finish(aotip_method* method, aotip_value* outputs,
                                                size_t n_outputs);

/// Sets options of delegates for the whole process; those of one delegate all or none.
AOTIP_RUNNER_EXPORT int32_t aotip_set_options(const aotip_option* options, size_t n_options);

/// The options of a delegate with their values, `capacity` of them at most; `ret_count` is how many
/// there are. Names are borrowed until the next call on this thread.
AOTIP_RUNNER_EXPORT int32_t aotip_get_options(const char* backend, aotip_option* options,
                                              size_t capacity, size_t* ret_count);

/// The backends that are registered in this process.
AOTIP_RUNNER_EXPORT size_t aotip_backend_count(void);

/// Null when there is no backend with this index.
AOTIP_RUNNER_EXPORT const char* aotip_backend_name(size_t index);

#ifdef __cplusplus
}  // extern "C"
#endif
