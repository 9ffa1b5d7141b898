#pragma once

/// What a blob's wrapper says of its constants, and of the sizes that it expects, in few calls.
///
/// PyTorch writes eleven statements for each constant, with lists of numbers, and more lists for
/// each result that it looks at. Of a model with many layers that is much of the time of
/// compiling. The lowering writes calls of these functions in their place
/// (`aoti_plugins/lowering/inductor/short_wrapper.py` must match). Behind PyTorch's headers.

#include <aoti_plugins/blob_failures.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

namespace aotip {

/// Whole numbers, each with a comma behind it, from `text` on to what is none.
/// @return where that stands.
[[gnu::noinline]] inline const char* read_numbers(const char* text, std::vector<int64_t>& ret) {
  char* end = nullptr;
  for (int64_t number = std::strtoll(text, &end, 10); end != text;
       number = std::strtoll(text, &end, 10)) {
    ret.push_back(number);
    text = end + 1;
  }
  return text;
}

/// Fills PyTorch's description of a constant.
/// @param layout its sizes and strides, as `"2,3,;3,1,"`.
template <typename Info>
[[gnu::noinline]] void describe_constant(Info& info, const char* name, const char* fqn,
                                         const char* layout, int32_t dtype, size_t offset,
                                         size_t nbytes, bool is_folded, int32_t type,
                                         int32_t torch_layout) {
  info.name = name;
  info.original_fqn = fqn;
  (void)read_numbers(read_numbers(layout, info.shape) + 1, info.stride);
  info.dtype = dtype;
  info.offset = offset;
  info.data_size = nbytes;
  info.from_folded = is_folded;
  info.type = type;
  info.layout = torch_layout;
}

[[gnu::noinline]] inline std::string list_of(const int64_t* numbers, int64_t count) {
  std::string text = "[";
  for (int64_t i = 0; i < count; ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  }
  return text + "]";
}

[[gnu::noinline]] inline void refuse_tensor(const char* op, const std::string& reason) {
  const std::string text = std::string(op) + ": expected " + reason +
                           "; where an op gave it, its fake kernel may say something else";
  aotip_blob_check(false, __func__, "blob_tables.h", __LINE__, text.c_str());
}

/// Throws where a tensor is not laid out as its op has said.
/// @param layout as of `describe_constant`. Strides of dims of one element do not matter, nor do
/// those of a tensor without elements.
[[gnu::noinline]] inline void check_layout(AtenTensorHandle tensor, const char* layout,
                                           const char* op) {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  (void)read_numbers(read_numbers(layout, sizes) + 1, strides);
  int64_t ndim = 0;
  int64_t numel = 0;
  int64_t* found_sizes = nullptr;
  int64_t* found_strides = nullptr;
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dim(tensor, &ndim));
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_numel(tensor, &numel));
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_sizes(tensor, &found_sizes));
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_strides(tensor, &found_strides));
  bool fits = ndim == static_cast<int64_t>(sizes.size());
  for (int64_t i = 0; fits && numel > 0 && i < ndim; ++i) {
    const auto at = static_cast<size_t>(i);
    fits = found_sizes[i] == sizes[at] && (found_sizes[i] == 1 || found_strides[i] == strides[at]);
  }
  if (!fits) {
    refuse_tensor(op, "sizes " + list_of(sizes.data(), static_cast<int64_t>(sizes.size())) +
                          " with strides " +
                          list_of(strides.data(), static_cast<int64_t>(strides.size())) + ", got " +
                          list_of(found_sizes, ndim) + " with strides " +
                          list_of(found_strides, ndim));
  }
}

/// The same, and throws where its elements are of another type. Of a result that is not there
/// nothing is expected.
[[gnu::noinline]] inline void check_typed_layout(AtenTensorHandle tensor, const char* layout,
                                                 const char* op, int32_t dtype,
                                                 const char* dtype_name) {
  bool is_there = true;
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_is_defined(tensor, &is_there));
  if (!is_there) {
    return;
  }
  int32_t found = 0;
  AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor, &found));
  if (found != dtype) {
    refuse_tensor(op, std::string(dtype_name) + ", number " + std::to_string(dtype) +
                          " of PyTorch's types, got number " + std::to_string(found));
  }
  check_layout(tensor, layout, op);
}

}  // namespace aotip
