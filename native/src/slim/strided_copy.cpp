#include "slim/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "slim/element.h"
#include "slim/loops.h"
#include "slim/tensor.h"

namespace aoti_plugins {
namespace {

template <typename Inner>
void for_each_run(const Loops& loops, const Inner& inner) noexcept {
  const int64_t outer = loops.count - 1;
  int64_t index[Tensor::kMaxDims] = {};
  int64_t dst = 0;
  int64_t src = 0;
  for (;;) {
    inner(dst, src);
    int64_t d = outer - 1;
    for (; d >= 0; --d) {
      dst += loops.dims[d].dst;
      src += loops.dims[d].src;
      if (++index[d] < loops.dims[d].size) {
        break;
      }
      dst -= loops.dims[d].dst * loops.dims[d].size;
      src -= loops.dims[d].src * loops.dims[d].size;
      index[d] = 0;
    }
    if (d < 0) {
      return;
    }
  }
}

/// Copies a matrix whose rows are neighbours in `dst` while its columns are in `src`, or nearly so.
/// In squares as wide as a cache line, so that each line is fetched once.
template <typename T>
void transpose(T* dst, const T* src, const Loops::Dim& rows, const Loops::Dim& columns) noexcept {
  constexpr int64_t kSide = 64 / sizeof(T);
  for (int64_t row = 0; row < rows.size; row += kSide) {
    const int64_t height = std::min(kSide, rows.size - row);
    for (int64_t column = 0; column < columns.size; column += kSide) {
      const int64_t width = std::min(kSide, columns.size - column);
      for (int64_t i = row; i < row + height; ++i) {
        T* to = dst + i * rows.dst + column * columns.dst;
        const T* from = src + i * rows.src + column * columns.src;
        for (int64_t j = 0; j < width; ++j) {
          to[j * columns.dst] = from[j * columns.src];
        }
      }
    }
  }
}

/// The loop with the smallest step in `src`.
int64_t innermost_in_src(const Loops& loops) noexcept {
  const auto* found =
      std::min_element(loops.dims, loops.dims + loops.count,
                       [](const Loops::Dim& a, const Loops::Dim& b) { return a.src < b.src; });
  return found - loops.dims;
}

template <typename T>
void copy_typed(T* dst, const T* src, const Loops& loops) noexcept {
  if (loops.count == 0) {
    *dst = *src;
    return;
  }
  const Loops::Dim inner = loops.dims[loops.count - 1];
  const int64_t by_src = innermost_in_src(loops);
  if (loops.dims[by_src].src > 0 && loops.dims[by_src].src < inner.src) {
    Loops others = loops;
    const Loops::Dim rows = others.take(by_src);
    for_each_run(others, [&](int64_t dst_offset, int64_t src_offset) {
      transpose(dst + dst_offset, src + src_offset, rows, inner);
    });
    return;
  }
  for_each_run(loops, [&](int64_t dst_offset, int64_t src_offset) {
    T* to = dst + dst_offset;
    const T* from = src + src_offset;
    if (inner.dst == 1 && inner.src == 1) {
      std::memcpy(to, from, static_cast<size_t>(inner.size) * sizeof(T));
    } else {
      for (int64_t i = 0; i < inner.size; ++i) {
        to[i * inner.dst] = from[i * inner.src];
      }
    }
  });
}

struct Wide {
  uint64_t words[2];
};

void convert(Tensor& dst, const Tensor& src, const Loops& loops) noexcept {
  const int64_t dst_nbytes = static_cast<int64_t>(dst.itemsize());
  const int64_t src_nbytes = static_cast<int64_t>(src.itemsize());
  const Loops::Dim inner = loops.count > 0 ? loops.dims[loops.count - 1] : Loops::Dim{1, 0, 0};
  const auto run = [&](int64_t dst_offset, int64_t src_offset) {
    char* to = dst.data_as<char>() + dst_offset * dst_nbytes;
    const char* from = src.data_as<char>() + src_offset * src_nbytes;
    for (int64_t i = 0; i < inner.size; ++i) {
      store_element(to, dst.dtype(), load_element(from, src.dtype()));
      to += inner.dst * dst_nbytes;
      from += inner.src * src_nbytes;
    }
  };
  if (loops.count == 0) {
    run(0, 0);
  } else {
    for_each_run(loops, run);
  }
}

}  // namespace

void strided_copy_raw(void* dst, const int64_t* dst_strides, const void* src,
                      const int64_t* src_strides, int64_t ndim, const int64_t* sizes,
                      size_t itemsize) noexcept {
  if (std::find(sizes, sizes + ndim, 0) != sizes + ndim) {
    return;
  }
  const Loops loops(ndim, sizes, dst_strides, src_strides);
  switch (itemsize) {
    case 1:
      return copy_typed(static_cast<uint8_t*>(dst), static_cast<const uint8_t*>(src), loops);
    case 2:
      return copy_typed(static_cast<uint16_t*>(dst), static_cast<const uint16_t*>(src), loops);
    case 4:
      return copy_typed(static_cast<uint32_t*>(dst), static_cast<const uint32_t*>(src), loops);
    case 8:
      return copy_typed(static_cast<uint64_t*>(dst), static_cast<const uint64_t*>(src), loops);
    default:
      return copy_typed(static_cast<Wide*>(dst), static_cast<const Wide*>(src), loops);
  }
}

Status strided_copy(Tensor& dst, const Tensor& src) noexcept {
  AOTIP_CHECK(
      dst.ndim() == src.ndim() && std::equal(dst.sizes(), dst.sizes() + dst.ndim(), src.sizes()),
      "copy: the sizes of source and destination differ");
  AOTIP_CHECK(dst.device().type == kCpu && src.device().type == kCpu,
              "copy: %s to %s is not a copy on the cpu", device_type_name(src.device().type),
              device_type_name(dst.device().type));
  if (dst.numel() == 0) {
    return Status::kOk;
  }
  if (dst.dtype() != src.dtype()) {
    AOTIP_CHECK(is_convertible(dst.dtype()) && is_convertible(src.dtype()),
                "copy: no conversion from %s to %s", dtype_name(src.dtype()),
                dtype_name(dst.dtype()));
    convert(dst, src, Loops(dst.ndim(), dst.sizes(), dst.strides(), src.strides()));
    return Status::kOk;
  }
  const bool same_strides = std::equal(dst.strides(), dst.strides() + dst.ndim(), src.strides());
  if ((dst.is_contiguous() && src.is_contiguous()) || (same_strides && dst.is_dense())) {
    std::memmove(dst.data(), src.data(), dst.nbytes());
    return Status::kOk;
  }
  strided_copy_raw(dst.data(), dst.strides(), src.data(), src.strides(), dst.ndim(), dst.sizes(),
                   dst.itemsize());
  return Status::kOk;
}

}  // namespace aoti_plugins
