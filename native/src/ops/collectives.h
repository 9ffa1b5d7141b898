#pragma once

#include <cinttypes>
#include <cstdint>
#include <vector>

#include "ops/operand.h"
#include "ranks/collectives.h"
#include "ranks/group.h"

// Collectives over a device's table `C`, a type with
//
//   static constexpr int32_t kType                        the device type
//   static const Tensor* dense(const Tensor&, OwnedTensor*)   itself or a row-major copy
//   static Status copy(Tensor& out, const Tensor& in)
//   Scope(const Tensor&), status()                        makes the tensor's GPU current
//
// and a function for each, which gets checked groups of more than one rank and row-major tensors.

namespace aoti_plugins::ops {

using ranks::Group;

inline Status check_rows(const Tensor& x) {
  AOTIP_CHECK(x.ndim() >= 1, "x has no dims, expected rows");
  return Status::kOk;
}

/// A new row-major tensor like x with so many rows.
template <typename C>
Tensor* with_rows(const Tensor& x, int64_t rows) {
  std::vector<int64_t> sizes(x.sizes(), x.sizes() + x.ndim());
  sizes[0] = rows;
  return Tensor::empty(x.ndim(), sizes.data(), x.dtype(), x.device());
}

/// Checks what all collectives have, gives `work` a row-major x and the result, and hands that out.
template <typename C, typename Make, typename Work>
Status collective(AtenTensorHandle handle, const Group& group, AtenTensorHandle* ret0,
                  const Make& make, const Work& work) {
  AOTIP_CHECK(handle != nullptr, "x is null");
  AOTIP_CHECK(unwrap(handle)->defined(), "x is an undefined tensor");
  AOTIP_CHECK_ARG(ret0);
  const Tensor& x = *unwrap(handle);
  AOTIP_RETURN_IF_FAILED(check_on(x, "x", C::kType));
  AOTIP_RETURN_IF_FAILED(group.check());
  const typename C::Scope scope(x);
  AOTIP_RETURN_IF_FAILED(scope.status());
  OwnedTensor out;
  AOTIP_RETURN_IF_FAILED(make(x, &out));
  AOTIP_RETURN_IF_NULL(out);
  if (group.size == 1) {
    AOTIP_RETURN_IF_FAILED(C::copy(*out, x));
  } else {
    OwnedTensor owner;
    const Tensor* dense = C::dense(x, &owner);
    AOTIP_RETURN_IF_NULL(dense);
    AOTIP_RETURN_IF_FAILED(work(*dense, *out));
  }
  return give(out.release(), ret0);
}

template <typename C>
Status all_reduce(AtenTensorHandle handle, int64_t reduction, const Group& group,
                  AtenTensorHandle* ret0) {
  return collective<C>(
      handle, group, ret0,
      [&](const Tensor& x, OwnedTensor* out) {
        AOTIP_RETURN_IF_FAILED(ranks::check_reduction(reduction, x.dtype()));
        out->reset(Tensor::empty(x.ndim(), x.sizes(), x.dtype(), x.device()));
        return Status::kOk;
      },
      [&](const Tensor& x, Tensor& out) {
        return C::all_reduce(group, static_cast<ranks::Reduction>(reduction), x, out);
      });
}

template <typename C>
Status all_gather(AtenTensorHandle handle, const Group& group, AtenTensorHandle* ret0) {
  return collective<C>(
      handle, group, ret0,
      [&](const Tensor& x, OwnedTensor* out) {
        AOTIP_RETURN_IF_FAILED(check_rows(x));
        out->reset(with_rows<C>(x, x.size(0) * group.size));
        return Status::kOk;
      },
      [&](const Tensor& x, Tensor& out) { return C::all_gather(group, x, out); });
}

template <typename C>
Status reduce_scatter(AtenTensorHandle handle, int64_t reduction, const Group& group,
                      AtenTensorHandle* ret0) {
  return collective<C>(
      handle, group, ret0,
      [&](const Tensor& x, OwnedTensor* out) {
        AOTIP_RETURN_IF_FAILED(check_rows(x));
        AOTIP_RETURN_IF_FAILED(ranks::check_reduction(reduction, x.dtype()));
        AOTIP_CHECK(x.size(0) % group.size == 0,
                    "x has %" PRId64 " rows, which cannot be divided among %" PRId64 " ranks",
                    x.size(0), group.size);
        out->reset(with_rows<C>(x, x.size(0) / group.size));
        return Status::kOk;
      },
      [&](const Tensor& x, Tensor& out) {
        return C::reduce_scatter(group, static_cast<ranks::Reduction>(reduction), x, out);
      });
}

inline Status check_splits(const char* name, const int64_t* splits, int64_t count,
                           const Group& group, int64_t* ret_rows) {
  AOTIP_CHECK(count == group.size && splits != nullptr,
              "%s has %" PRId64 " numbers, expected one for each of %" PRId64 " ranks", name, count,
              group.size);
  *ret_rows = 0;
  for (int64_t i = 0; i < count; ++i) {
    AOTIP_CHECK(splits[i] >= 0 && !__builtin_add_overflow(*ret_rows, splits[i], ret_rows),
                "%s has %" PRId64 " rows for the rank at place %" PRId64, name, splits[i], i);
  }
  return Status::kOk;
}

template <typename C>
Status all_to_all(AtenTensorHandle handle, const int64_t* output_splits, int64_t n_output,
                  const int64_t* input_splits, int64_t n_input, const Group& group,
                  AtenTensorHandle* ret0) {
  return collective<C>(
      handle, group, ret0,
      [&](const Tensor& x, OwnedTensor* out) {
        int64_t rows_out = 0;
        int64_t rows_in = 0;
        AOTIP_RETURN_IF_FAILED(check_rows(x));
        AOTIP_RETURN_IF_FAILED(
            check_splits("output_splits", output_splits, n_output, group, &rows_out));
        AOTIP_RETURN_IF_FAILED(
            check_splits("input_splits", input_splits, n_input, group, &rows_in));
        AOTIP_CHECK(rows_in == x.size(0) && (group.size > 1 || rows_out == rows_in),
                    "x has %" PRId64 " rows, the splits have %" PRId64 " and %" PRId64, x.size(0),
                    rows_in, rows_out);
        out->reset(with_rows<C>(x, rows_out));
        return Status::kOk;
      },
      [&](const Tensor& x, Tensor& out) {
        size_t row_nbytes = x.itemsize();
        for (int64_t d = 1; d < x.ndim(); ++d) {
          row_nbytes *= static_cast<size_t>(x.size(d));
        }
        std::vector<size_t> in;
        std::vector<size_t> to;
        for (int64_t i = 0; i < group.size; ++i) {
          in.push_back(static_cast<size_t>(input_splits[i]) * row_nbytes);
          to.push_back(static_cast<size_t>(output_splits[i]) * row_nbytes);
        }
        return C::all_to_all(group, in.data(), x, to.data(), out);
      });
}

template <typename C>
Status broadcast(AtenTensorHandle handle, int64_t source, const Group& group,
                 AtenTensorHandle* ret0) {
  return collective<C>(
      handle, group, ret0,
      [&](const Tensor& x, OwnedTensor* out) {
        AOTIP_CHECK(source >= 0 && source < group.size,
                    "the source is at place %" PRId64 " of a group of %" PRId64 " ranks", source,
                    group.size);
        out->reset(Tensor::empty(x.ndim(), x.sizes(), x.dtype(), x.device()));
        return Status::kOk;
      },
      [&](const Tensor& x, Tensor& out) {
        return C::broadcast(group, static_cast<int32_t>(source), x, out);
      });
}

}  // namespace aoti_plugins::ops
