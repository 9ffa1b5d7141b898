#include "cuda/ops/token_attention.h"

#include <algorithm>
#include <cstdio>
#include <limits>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/device_kernels.h"
#include "cuda/driver/gpu.h"
#include "cuda/driver/stream.h"
#include "cuda/kernels/token_attention.h"
#include "cuda/ops/small_weights.h"
#include "ops/operand.h"

namespace aoti_plugins::cuda {
namespace {

/// What the kernels take as it is: rows without gaps, everything aligned to 16 bytes.
bool is_as_kernels_want(const Tensor& tensor) {
  const int64_t last = tensor.ndim() - 1;
  bool fits = tensor.stride(last) == 1 && reinterpret_cast<uintptr_t>(tensor.data()) % 16 == 0;
  for (int64_t d = 0; d < last; ++d) {
    fits &= tensor.size(d) == 1 || tensor.stride(d) % 8 == 0;
  }
  return fits;
}

/// The tensor itself, or a copy that the kernels take.
Status as_kernels_want(const Tensor& from, OwnedTensor* copy, const Tensor** ret) {
  *ret = &from;
  if (!is_as_kernels_want(from)) {
    *copy = row_major_copy(from);
    AOTIP_RETURN_IF_NULL(*copy);
    *ret = copy->get();
  }
  return Status::kOk;
}

Status check_sizes(const Tensor& tensor, const char* name, int64_t heads, int64_t rows, int64_t d) {
  AOTIP_CHECK(tensor.ndim() == 4 && tensor.size(0) == 1 && tensor.size(1) == heads &&
                  tensor.size(2) == rows && tensor.size(3) == d,
              "%s is not [1, %lld, %lld, %lld]", name, static_cast<long long>(heads),
              static_cast<long long>(rows), static_cast<long long>(d));
  return Status::kOk;
}

Status check_like(const Tensor& tensor, const char* name, const Tensor& query, int32_t dtype) {
  AOTIP_CHECK(tensor.dtype() == dtype, "%s is %s, expected %s", name, dtype_name(tensor.dtype()),
              dtype_name(dtype));
  AOTIP_CHECK(tensor.device() == query.device(), "%s and query are on different devices", name);
  return Status::kOk;
}

/// One row of `size` elements, however many dims it has.
Status check_row(const Tensor* row, const char* name, const Tensor& query, int32_t dtype,
                 int64_t size) {
  if (row == nullptr) {
    return Status::kOk;
  }
  AOTIP_RETURN_IF_FAILED(check_like(*row, name, query, dtype));
  AOTIP_CHECK(row->numel() == size && row->is_contiguous(), "%s has not %lld elements without gaps",
              name, static_cast<long long>(size));
  return Status::kOk;
}

Status check_caches(const CachedAttention& a, int64_t kv_heads, int64_t d) {
  const int64_t capacity = a.keys->ndim() == 4 ? a.keys->size(2) : 0;
  AOTIP_CHECK(capacity > 0 && capacity <= std::numeric_limits<int32_t>::max() / 2,
              "keys is not [1, %lld, capacity, %lld]", static_cast<long long>(kv_heads),
              static_cast<long long>(d));
  for (const Tensor* cache : {a.keys, a.values}) {
    const char* name = cache == a.keys ? "keys" : "values";
    AOTIP_RETURN_IF_FAILED(check_sizes(*cache, name, kv_heads, capacity, d));
    AOTIP_RETURN_IF_FAILED(check_like(*cache, name, *a.query, a.query->dtype()));
    AOTIP_CHECK(is_as_kernels_want(*cache), "rows of %s have gaps or are not aligned to 16 bytes",
                name);
    AOTIP_CHECK(cache->stride(2) >= 0 && cache->stride(2) <= std::numeric_limits<int32_t>::max(),
                "rows of %s are too far apart", name);
  }
  AOTIP_RETURN_IF_FAILED(check_row(a.position, "position", *a.query, kInt64, 1));
  AOTIP_RETURN_IF_FAILED(check_row(a.mask, "mask", *a.query, kBool, capacity));
  AOTIP_CHECK((a.mask == nullptr) == (a.range == nullptr), "a mask and its range go together");
  return check_row(a.range, "range", *a.query, kInt32, sizeof(AttendedRange) / sizeof(int32_t));
}

Status check(const CachedAttention& a) {
  AOTIP_RETURN_IF_FAILED(ops::check_on(*a.query, "query", kCuda));
  AOTIP_CHECK(a.query->dtype() == kFloat16 || a.query->dtype() == kBFloat16,
              "query is %s, expected float16 or bfloat16", dtype_name(a.query->dtype()));
  AOTIP_CHECK(a.query->ndim() == 4 && a.key->ndim() == 4, "query and key do not have four dims");
  const int64_t heads = a.query->size(1);
  const int64_t kv_heads = a.key->size(1);
  const int64_t d = a.query->size(3);
  AOTIP_CHECK(d == 64 || d == 128, "heads of %lld elements, expected 64 or 128",
              static_cast<long long>(d));
  AOTIP_CHECK(kv_heads > 0 && heads % kv_heads == 0 && heads > 0 && heads <= 4096,
              "%lld heads do not share %lld of the cache", static_cast<long long>(heads),
              static_cast<long long>(kv_heads));
  AOTIP_RETURN_IF_FAILED(check_sizes(*a.query, "query", heads, 1, d));
  AOTIP_RETURN_IF_FAILED(check_sizes(*a.key, "key", kv_heads, 1, d));
  AOTIP_RETURN_IF_FAILED(check_sizes(*a.value, "value", kv_heads, 1, d));
  const int32_t dtype = a.query->dtype();
  AOTIP_RETURN_IF_FAILED(check_like(*a.key, "key", *a.query, dtype));
  AOTIP_RETURN_IF_FAILED(check_like(*a.value, "value", *a.query, dtype));
  AOTIP_RETURN_IF_FAILED(check_row(a.cos, "cos", *a.query, dtype, d));
  AOTIP_RETURN_IF_FAILED(check_row(a.sin, "sin", *a.query, dtype, d));
  AOTIP_RETURN_IF_FAILED(check_row(a.query_norm, "query_norm", *a.query, dtype, d));
  AOTIP_RETURN_IF_FAILED(check_row(a.key_norm, "key_norm", *a.query, dtype, d));
  return check_caches(a, kv_heads, d);
}

const void* data_of(const Tensor* tensor) {
  return tensor != nullptr ? tensor->data() : nullptr;
}

TokenAttention arguments_of(const CachedAttention& a, const Tensor& out) {
  TokenAttention p{};
  p.query = a.query->data();
  p.key = a.key->data();
  p.value = a.value->data();
  p.cos = a.cos->data();
  p.sin = a.sin->data();
  p.query_norm = data_of(a.query_norm);
  p.key_norm = data_of(a.key_norm);
  p.keys = a.keys->data();
  p.values = a.values->data();
  p.position = static_cast<const int64_t*>(a.position->data());
  p.mask = static_cast<const bool*>(data_of(a.mask));
  p.range = static_cast<const int32_t*>(data_of(a.range));
  p.out = out.data();
  p.query_step = a.query->stride(1);
  p.key_step = a.key->stride(1);
  p.value_step = a.value->stride(1);
  p.keys_step = a.keys->stride(1);
  p.values_step = a.values->stride(1);
  p.keys_row = static_cast<int32_t>(a.keys->stride(2));
  p.values_row = static_cast<int32_t>(a.values->stride(2));
  p.heads = static_cast<int32_t>(a.query->size(1));
  p.kv_heads = static_cast<int32_t>(a.key->size(1));
  p.capacity = static_cast<int32_t>(a.keys->size(2));
  p.scale = static_cast<float>(a.scale);
  p.epsilon = static_cast<float>(a.epsilon);
  return p;
}

int32_t shared_nbytes(int64_t d) {
  return d == 64 ? kTokenAttentionNbytes<64> : kTokenAttentionNbytes<128>;
}

/// Blocks that share the positions of a cache.
int32_t sharers_of(int32_t gpu, int32_t capacity) {
  if (!has_clusters(gpu)) {
    return 1;
  }
  int32_t sharers = 1;
  while (sharers < kMostSharers && sharers * kTokenChunk < capacity) {
    sharers *= 2;
  }
  return sharers;
}

/// Clusters that all multiprocessors have room for, if kernels begin early. Where some of them had
/// a block of this kernel and others none, the others would get two blocks of the next one.
int32_t clusters_that_stand_by(int32_t gpu, int32_t sharers) {
  const Gpu* where = find_gpu(gpu);
  return where != nullptr && where->kernels_arch >= 90 ? where->multiprocessors / sharers : 0;
}

Status launch(const CachedAttention& a, Tensor& out) {
  TokenAttention p = arguments_of(a, out);
  const int32_t gpu = out.device().index;
  Stream* stream = current_stream().owner;
  if (stream != nullptr) {
    AOTIP_RETURN_IF_FAILED(stream->fault_word(&p.fault));
  }
  p.sharers = sharers_of(gpu, p.capacity);
  const int32_t group = p.heads / p.kv_heads;
  const int64_t d = a.query->size(3);
  char name[64];
  (void)std::snprintf(name, sizeof(name), "aotip_token_attention_%s_%d", kind_of_halves(out),
                      static_cast<int>(d));
  const int32_t units = std::max(p.kv_heads * ((group + kTokenHeads - 1) / kTokenHeads),
                                 clusters_that_stand_by(gpu, p.sharers));
  void* arguments[] = {&p};
  return launch_early(
      gpu, name,
      {static_cast<unsigned int>(units * p.sharers), kTokenWarps * 32,
       static_cast<unsigned int>(shared_nbytes(d)), static_cast<unsigned int>(p.sharers)},
      arguments);
}

}  // namespace

Status attended_range(const Tensor& mask, AtenTensorHandle* ret) noexcept {
  AOTIP_RETURN_IF_FAILED(ops::check_on(mask, "mask", kCuda));
  AOTIP_CHECK(mask.dtype() == kBool && mask.is_contiguous(), "mask is not bool without gaps");
  AOTIP_CHECK(mask.numel() <= std::numeric_limits<int32_t>::max() / 2, "mask is too large");
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(mask.device().index));
  const int64_t sizes[] = {sizeof(AttendedRange) / sizeof(int32_t)};
  OwnedTensor out(Tensor::empty(1, sizes, kInt32, mask.device()));
  AOTIP_RETURN_IF_NULL(out);
  const void* from = mask.data();
  int32_t capacity = static_cast<int32_t>(mask.numel());
  void* to = out->data();
  void* arguments[] = {&from, &capacity, &to};
  AOTIP_RETURN_IF_FAILED(
      launch_early(mask.device().index, "aotip_attended_range", {1, kRangeThreads, 0}, arguments));
  return give(out.release(), ret);
}

Status token_attention(const CachedAttention& attention, AtenTensorHandle* ret) noexcept {
  AOTIP_RETURN_IF_FAILED(check(attention));
  const ContextGuard guard;
  AOTIP_RETURN_IF_FAILED(use_gpu(attention.query->device().index));
  CachedAttention a = attention;
  OwnedTensor copies[5];
  AOTIP_RETURN_IF_FAILED(as_kernels_want(*attention.query, &copies[0], &a.query));
  AOTIP_RETURN_IF_FAILED(as_kernels_want(*attention.key, &copies[1], &a.key));
  AOTIP_RETURN_IF_FAILED(as_kernels_want(*attention.value, &copies[2], &a.value));
  AOTIP_RETURN_IF_FAILED(as_kernels_want(*attention.cos, &copies[3], &a.cos));
  AOTIP_RETURN_IF_FAILED(as_kernels_want(*attention.sin, &copies[4], &a.sin));
  OwnedTensor out(Tensor::empty(4, a.query->sizes(), a.query->dtype(), a.query->device()));
  AOTIP_RETURN_IF_NULL(out);
  AOTIP_RETURN_IF_FAILED(launch(a, *out));
  return give(out.release(), ret);
}

}  // namespace aoti_plugins::cuda
