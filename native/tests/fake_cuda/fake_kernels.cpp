// The kernels that the stand-in driver knows: our own, from their sources, and that of
// fake_cuda_model.

#include <cstdint>
#include <cstring>
#include <map>
#include <type_traits>
#include <utility>

#include "emulated_device.h"
#include "emulated_ptx.h"
#include "fake_kernels_table.h"

// After what makes it a host program.
#include "cuda/kernels/kernels.cu"

namespace fake_cuda {
namespace {

/// y[i] = x[i] * scale[i % 3] + k + *calls; then ++*calls.
void scale_add(float* y, const float* x, const float* scale, int64_t* calls, int64_t k, int64_t n) {
  if (threadIdx.x != 0) {
    return;
  }
  check_device(scale, 12);
  for (int64_t i = 0; i < n; ++i) {
    check_device(y + i, 4);
    check_device(x + i, 4);
    y[i] = x[i] * scale[i % 3] + static_cast<float>(k + *calls);
  }
  ++*calls;
}

template <typename T>
T value(void* argument) {
  std::remove_const_t<T> result;
  std::memcpy(&result, argument, sizeof(result));
  if constexpr (std::is_pointer_v<T>) {
    if (result != nullptr) {
      check_device(result, 1);
    }
  }
  return result;
}

template <typename... Arguments, size_t... kPlaces>
Kernel make_kernel(void (*function)(Arguments...), std::index_sequence<kPlaces...>) {
  return {{sizeof(Arguments)...}, [function](void** arguments, const Grid& grid) {
            run_blocks(grid, [&] { function(value<Arguments>(arguments[kPlaces])...); });
          }};
}

template <typename... Arguments>
Kernel make_kernel(void (*function)(Arguments...)) {
  return make_kernel(function, std::index_sequence_for<Arguments...>{});
}

}  // namespace

const Kernel* find_kernel(const std::string& name) {
#define FAKE_KERNEL(name)    \
  {                          \
    #name, make_kernel(name) \
  }
  static const auto* kernels = new std::map<std::string, Kernel>{
      FAKE_KERNEL(aotip_copy_1),
      FAKE_KERNEL(aotip_copy_2),
      FAKE_KERNEL(aotip_copy_4),
      FAKE_KERNEL(aotip_copy_8),
      FAKE_KERNEL(aotip_copy_16),
      FAKE_KERNEL(aotip_fill_1),
      FAKE_KERNEL(aotip_fill_2),
      FAKE_KERNEL(aotip_fill_4),
      FAKE_KERNEL(aotip_fill_8),
      FAKE_KERNEL(aotip_fill_16),
      FAKE_KERNEL(aotip_convert),
      FAKE_KERNEL(aotip_recurrent_cell),
      FAKE_KERNEL(aotip_scan),
      FAKE_KERNEL(aotip_histogram_float16),
      FAKE_KERNEL(aotip_histogram_bfloat16),
      FAKE_KERNEL(aotip_histogram_float32),
      FAKE_KERNEL(aotip_histogram_float64),
      FAKE_KERNEL(aotip_scatter),
      FAKE_KERNEL(aotip_divide),
      FAKE_KERNEL(aotip_scale_float32),
      FAKE_KERNEL(aotip_scale_float64),
      FAKE_KERNEL(aotip_one_row_4_bf16_2_8_1_1),
      FAKE_KERNEL(aotip_one_row_4_bf16_2_16_1_1),
      FAKE_KERNEL(aotip_one_row_4_f16_2_8_1_1),
      FAKE_KERNEL(aotip_one_row_4_bf16_2_8_1_0),
      FAKE_KERNEL(aotip_one_row_4_f16_2_8_1_0),
      FAKE_KERNEL(aotip_one_row_4_bf16_4_8_1_1),
      FAKE_KERNEL(aotip_one_row_4_bf16_2_8_2_1),
      FAKE_KERNEL(aotip_one_row_4_bf16_2_16_2_1),
      FAKE_KERNEL(aotip_one_row_4_f16_2_8_2_1),
      FAKE_KERNEL(aotip_one_row_4_bf16_2_8_2_0),
      FAKE_KERNEL(aotip_one_row_4_f16_2_8_2_0),
      FAKE_KERNEL(aotip_one_row_4_bf16_4_8_2_1),
      FAKE_KERNEL(aotip_one_row_4_bf16_2_8_4_1),
      FAKE_KERNEL(aotip_one_row_4_bf16_2_16_4_1),
      FAKE_KERNEL(aotip_one_row_4_f16_2_8_4_1),
      FAKE_KERNEL(aotip_one_row_4_bf16_2_8_4_0),
      FAKE_KERNEL(aotip_one_row_4_f16_2_8_4_0),
      FAKE_KERNEL(aotip_one_row_4_bf16_4_8_4_1),
      FAKE_KERNEL(aotip_one_row_8_bf16_2_8_1_1),
      FAKE_KERNEL(aotip_one_row_8_bf16_2_16_1_1),
      FAKE_KERNEL(aotip_one_row_8_f16_2_8_1_1),
      FAKE_KERNEL(aotip_one_row_8_bf16_2_8_1_0),
      FAKE_KERNEL(aotip_one_row_8_f16_2_8_1_0),
      FAKE_KERNEL(aotip_one_row_8_bf16_2_8_2_1),
      FAKE_KERNEL(aotip_one_row_8_bf16_2_16_2_1),
      FAKE_KERNEL(aotip_one_row_8_f16_2_8_2_1),
      FAKE_KERNEL(aotip_one_row_8_bf16_2_8_2_0),
      FAKE_KERNEL(aotip_one_row_8_f16_2_8_2_0),
      FAKE_KERNEL(aotip_streamed_row_4_bf16_5_0),
      FAKE_KERNEL(aotip_streamed_row_4_bf16_5_1),
      FAKE_KERNEL(aotip_streamed_row_4_bf16_6_0),
      FAKE_KERNEL(aotip_streamed_row_4_bf16_6_1),
      FAKE_KERNEL(aotip_streamed_row_4_bf16_7_0),
      FAKE_KERNEL(aotip_streamed_row_4_bf16_7_1),
      FAKE_KERNEL(aotip_streamed_zeros_4_bf16_5_0),
      FAKE_KERNEL(aotip_streamed_zeros_4_bf16_5_1),
      FAKE_KERNEL(aotip_streamed_row_8_bf16_31_0),
      FAKE_KERNEL(aotip_streamed_row_8_bf16_31_1),
      FAKE_KERNEL(aotip_streamed_floats_8_31),
      FAKE_KERNEL(aotip_streamed_floats_8_5),
      FAKE_KERNEL(aotip_streamed_floats_4_4),
      FAKE_KERNEL(aotip_streamed_halves_bf16),
      FAKE_KERNEL(aotip_streamed_halves_f16),
      FAKE_KERNEL(aotip_streamed_experts_4_bf16_5_0),
      FAKE_KERNEL(aotip_streamed_experts_4_bf16_5_1),
      FAKE_KERNEL(aotip_streamed_experts_4_bf16_7_0),
      FAKE_KERNEL(aotip_streamed_experts_4_bf16_7_1),
      FAKE_KERNEL(aotip_choose_experts_bf16),
      FAKE_KERNEL(aotip_choose_experts_f16),
      FAKE_KERNEL(aotip_choose_experts_f32),
      FAKE_KERNEL(aotip_experts_4_bf16),
      FAKE_KERNEL(aotip_experts_4_f16),
      FAKE_KERNEL(aotip_experts_8_bf16),
      FAKE_KERNEL(aotip_experts_8_f16),
      FAKE_KERNEL(aotip_order_experts),
      FAKE_KERNEL(aotip_add_experts_bf16),
      FAKE_KERNEL(aotip_add_experts_f16),
      FAKE_KERNEL(aotip_norm_of_rows_bf16),
      FAKE_KERNEL(aotip_norm_of_rows_f16),
      FAKE_KERNEL(aotip_end_of_rows_bf16),
      FAKE_KERNEL(aotip_end_of_rows_f16),
      FAKE_KERNEL(aotip_many_rows_4_bf16_64),
      FAKE_KERNEL(aotip_many_rows_4_bf16_128),
      FAKE_KERNEL(aotip_many_rows_4_bf16_256),
      FAKE_KERNEL(aotip_many_rows_4_f16_64),
      FAKE_KERNEL(aotip_many_rows_4_f16_128),
      FAKE_KERNEL(aotip_many_rows_4_f16_256),
      FAKE_KERNEL(aotip_many_rows_8_bf16_64),
      FAKE_KERNEL(aotip_many_rows_8_bf16_128),
      FAKE_KERNEL(aotip_many_rows_8_bf16_256),
      FAKE_KERNEL(aotip_many_rows_8_f16_64),
      FAKE_KERNEL(aotip_many_rows_8_f16_128),
      FAKE_KERNEL(aotip_many_rows_8_f16_256),
      FAKE_KERNEL(aotip_many_floats_4_bf16_64),
      FAKE_KERNEL(aotip_many_floats_4_bf16_128),
      FAKE_KERNEL(aotip_many_floats_4_bf16_256),
      FAKE_KERNEL(aotip_many_floats_8_bf16_64),
      FAKE_KERNEL(aotip_many_floats_8_bf16_128),
      FAKE_KERNEL(aotip_many_floats_8_bf16_256),
      FAKE_KERNEL(aotip_small_weights_4_bf16_2_1_1),
      FAKE_KERNEL(aotip_small_weights_4_bf16_2_1_2),
      FAKE_KERNEL(aotip_small_weights_4_bf16_2_1_4),
      FAKE_KERNEL(aotip_small_weights_4_bf16_2_2_1),
      FAKE_KERNEL(aotip_small_weights_4_bf16_2_2_2),
      FAKE_KERNEL(aotip_small_weights_4_bf16_2_2_4),
      FAKE_KERNEL(aotip_small_weights_4_bf16_4_1_1),
      FAKE_KERNEL(aotip_small_weights_4_bf16_4_1_2),
      FAKE_KERNEL(aotip_small_weights_4_bf16_4_1_4),
      FAKE_KERNEL(aotip_small_weights_4_f16_2_2_1),
      FAKE_KERNEL(aotip_small_weights_4_f16_2_2_2),
      FAKE_KERNEL(aotip_small_weights_4_f16_2_2_4),
      FAKE_KERNEL(aotip_small_weights_4_f16_4_1_1),
      FAKE_KERNEL(aotip_small_weights_4_f16_4_1_2),
      FAKE_KERNEL(aotip_small_weights_4_f16_4_1_4),
      FAKE_KERNEL(aotip_small_weights_8_bf16_2_1_1),
      FAKE_KERNEL(aotip_small_weights_8_bf16_2_1_2),
      FAKE_KERNEL(aotip_small_weights_8_bf16_2_2_1),
      FAKE_KERNEL(aotip_small_weights_8_bf16_2_2_2),
      FAKE_KERNEL(aotip_small_weights_8_bf16_4_1_1),
      FAKE_KERNEL(aotip_small_weights_8_bf16_4_1_2),
      FAKE_KERNEL(aotip_small_weights_8_f16_2_2_1),
      FAKE_KERNEL(aotip_small_weights_8_f16_2_2_2),
      FAKE_KERNEL(aotip_small_weights_8_f16_4_1_1),
      FAKE_KERNEL(aotip_small_weights_8_f16_4_1_2),
      FAKE_KERNEL(aotip_small_floats_4_bf16_2_1),
      FAKE_KERNEL(aotip_small_floats_4_bf16_2_2),
      FAKE_KERNEL(aotip_small_floats_4_bf16_4_1),
      FAKE_KERNEL(aotip_small_floats_8_bf16_2_1),
      FAKE_KERNEL(aotip_small_floats_8_bf16_2_2),
      FAKE_KERNEL(aotip_small_floats_8_bf16_4_1),
      FAKE_KERNEL(aotip_tile_packed_2_2_1),
      FAKE_KERNEL(aotip_tile_packed_2_2_2),
      FAKE_KERNEL(aotip_tile_packed_2_2_4),
      FAKE_KERNEL(aotip_tile_packed_4_1_1),
      FAKE_KERNEL(aotip_tile_packed_4_1_2),
      FAKE_KERNEL(aotip_tile_packed_4_1_4),
      FAKE_KERNEL(aotip_plain_int4_1_0),
      FAKE_KERNEL(aotip_plain_int4_1_1),
      FAKE_KERNEL(aotip_plain_int4_2_0),
      FAKE_KERNEL(aotip_plain_int4_2_1),
      FAKE_KERNEL(aotip_unpack_plain_int4),
      FAKE_KERNEL(aotip_plain_int5_1_0),
      FAKE_KERNEL(aotip_plain_int5_1_1),
      FAKE_KERNEL(aotip_plain_int5_2_0),
      FAKE_KERNEL(aotip_plain_int5_2_1),
      FAKE_KERNEL(aotip_unpack_plain_int5),
      FAKE_KERNEL(aotip_plain_int6_1_0),
      FAKE_KERNEL(aotip_plain_int6_1_1),
      FAKE_KERNEL(aotip_plain_int6_2_0),
      FAKE_KERNEL(aotip_plain_int6_2_1),
      FAKE_KERNEL(aotip_unpack_plain_int6),
      FAKE_KERNEL(aotip_plain_int8_1_0),
      FAKE_KERNEL(aotip_plain_int8_1_1),
      FAKE_KERNEL(aotip_plain_int8_2_0),
      FAKE_KERNEL(aotip_plain_int8_2_1),
      FAKE_KERNEL(aotip_unpack_plain_int8),
      FAKE_KERNEL(aotip_unpack_weights_4_bf16),
      FAKE_KERNEL(aotip_unpack_weights_4_f16),
      FAKE_KERNEL(aotip_unpack_weights_8_bf16),
      FAKE_KERNEL(aotip_unpack_weights_8_f16),
      FAKE_KERNEL(aotip_unpack_floats_4_bf16),
      FAKE_KERNEL(aotip_unpack_floats_8_bf16),
      FAKE_KERNEL(aotip_sort_short_4_2),
      FAKE_KERNEL(aotip_sort_short_4_4),
      FAKE_KERNEL(aotip_sort_short_8_2),
      FAKE_KERNEL(aotip_sort_short_8_4),
      FAKE_KERNEL(aotip_sort_block_4_1),
      FAKE_KERNEL(aotip_sort_block_4_4),
      FAKE_KERNEL(aotip_sort_block_4_16),
      FAKE_KERNEL(aotip_sort_block_8_1),
      FAKE_KERNEL(aotip_sort_block_8_4),
      FAKE_KERNEL(aotip_sort_block_8_8),
      FAKE_KERNEL(aotip_radix_count_4),
      FAKE_KERNEL(aotip_radix_count_8),
      FAKE_KERNEL(aotip_radix_pass_4),
      FAKE_KERNEL(aotip_radix_pass_8),
      FAKE_KERNEL(aotip_select_4),
      FAKE_KERNEL(aotip_select_8),
      FAKE_KERNEL(aotip_peer_reduce_f32),
      FAKE_KERNEL(aotip_peer_reduce_bf16),
      FAKE_KERNEL(aotip_peer_reduce_f16),
      FAKE_KERNEL(aotip_peer_gather),
      FAKE_KERNEL(aotip_reduce_pieces_f32),
      FAKE_KERNEL(aotip_reduce_pieces_bf16),
      FAKE_KERNEL(aotip_reduce_pieces_f16),
      FAKE_KERNEL(aotip_attended_range),
      FAKE_KERNEL(aotip_draw_likeliest),
      FAKE_KERNEL(aotip_draw_bins),
      FAKE_KERNEL(aotip_draw_top_k),
      FAKE_KERNEL(aotip_draw_top_p),
      FAKE_KERNEL(aotip_draw_number),
      FAKE_KERNEL(aotip_token_attention_bf16_64),
      FAKE_KERNEL(aotip_token_attention_bf16_128),
      FAKE_KERNEL(aotip_token_attention_f16_64),
      FAKE_KERNEL(aotip_token_attention_f16_128),
      {"fake_scale_add", make_kernel(scale_add)},
  };
#undef FAKE_KERNEL
  const auto found = kernels->find(name);
  return found != kernels->end() ? &found->second : nullptr;
}

}  // namespace fake_cuda
