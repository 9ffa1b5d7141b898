// Elements that go where an index says. The same cases on every device: see device.h.

#include "conformance/tensors.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

BOOST_FIXTURE_TEST_SUITE(scatters, DeviceFixture)

namespace {

/// What scatter_reduce makes of numbers along the first dim of [rows, cols].
Numbers reduced(Numbers out, const Ints& sizes, const Ints& index_sizes, const Numbers& index,
                const Numbers& src, const Ints& src_sizes, const std::string& how,
                bool include_self, bool whole) {
  Numbers counts(out.size(), include_self ? 1 : 0);
  for (int64_t i = 0; i < index_sizes[0]; ++i) {
    for (int64_t j = 0; j < index_sizes[1]; ++j) {
      const size_t at = static_cast<size_t>(index[static_cast<size_t>(i * index_sizes[1] + j)] *
                                                static_cast<double>(sizes[1]) +
                                            static_cast<double>(j));
      const double value = src[static_cast<size_t>(i * src_sizes[1] + j)];
      double& to = out[at];
      to = counts[at] == 0                 ? value
           : how == "prod"                 ? to * value
           : how == "amax"                 ? std::max(to, value)
           : how == "amin"                 ? std::min(to, value)
           : how == "sum" || how == "mean" ? to + value
                                           : value;
      counts[at] += 1;
    }
  }
  for (size_t i = 0; how == "mean" && i < out.size(); ++i) {
    if (counts[i] > 1) {
      out[i] = whole ? std::floor(out[i] / counts[i]) : out[i] / counts[i];
    }
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(scatters_with_every_reduction) {
  const Ints sizes = {4, 3};
  const Ints index_sizes = {4, 2};
  const Ints src_sizes = {5, 3};
  const Numbers index = {0, 3, 2, 3, 0, 1, 0, 3};
  for (const int32_t dtype : kNumbers) {
    if (dtype == kBool) {
      continue;  // sums of flags are not numbers
    }
    const Numbers values = some(sizes, dtype);
    const Numbers from = some(src_sizes, dtype, 3);
    for (size_t way = 0; way < 3; ++way) {
      const Handle self = tensor(sizes, layouts(sizes)[way], dtype, values);
      const Handle src = tensor(src_sizes, layouts(src_sizes)[way], dtype, from);
      const Handle at = tensor(index_sizes, layouts(index_sizes)[way], kInt64, index);
      const Handle out = empty(sizes, layouts(sizes)[(way + 1) % 3], dtype);
      for (const char* how : {"sum", "prod", "mean", "amax", "amin"}) {
        for (const int32_t include_self : {0, 1}) {
          BOOST_TEST_REQUIRE(AOTIP_ON(scatter_reduce_two_out)(out.get(), self.get(), -2, at.get(),
                                                              src.get(), how, include_self) == 0,
                             reason());
          const Numbers expected = reduced(values, sizes, index_sizes, index, from, src_sizes, how,
                                           include_self != 0, is_integer(dtype));
          // A mean of 3 is rounded once or twice.
          check_close(out, expected,
                      is_integer(dtype)    ? 0.0
                      : dtype == kBFloat16 ? 0.01
                                           : 0.001,
                      title(how, dtype, sizes, include_self));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(scatters_what_is_written) {
  for (const int32_t dtype : kNumbers) {
    const Handle self = tensor({3, 2}, {1, 3}, dtype, {1, 0, 1, 1, 0, 1});
    const Handle src = tensor({2, 2}, dtype, {0, 1, 0, 1});
    const Handle index = indices({2, 2}, {0, 2, 1, 1});
    const Handle out = empty({3, 2}, dtype);
    BOOST_TEST_REQUIRE(
        AOTIP_ON(scatter_src_out)(out.get(), self.get(), 0, index.get(), src.get()) == 0, reason());
    check_equal(out, {0, 0, 0, 1, 0, 1}, "scatter.src");
    BOOST_TEST_REQUIRE(AOTIP_ON(scatter_value_out)(out.get(), self.get(), 0, index.get(), 1.0) == 0,
                       reason());
    check_equal(out, {1, 0, 1, 1, 0, 1}, "scatter.value");
  }
  if (kLastWriteStays) {
    const Handle self = tensor({2}, kFloat32, {0, 0});
    const Handle src = tensor({3}, kFloat32, {5, 6, 7});
    const Handle index = indices({3}, {1, 1, 1});
    BOOST_TEST_REQUIRE(
        AOTIP_ON(scatter_src_out)(self.get(), self.get(), 0, index.get(), src.get()) == 0);
    check_equal(self, {0, 7}, "the last one");
  }
}

BOOST_AUTO_TEST_CASE(scatters_into_itself_nothing_and_no_dims) {
  const Handle self = tensor({4}, kFloat32, {1, 2, 3, 4});
  const Handle src = tensor({3}, kFloat32, {7, 8, 9});
  const Handle index = indices({2}, {3, 0});
  BOOST_TEST_REQUIRE(
      AOTIP_ON(scatter_src_out)(self.get(), self.get(), 0, index.get(), src.get()) == 0, reason());
  check_equal(self, {8, 2, 3, 7}, "in place");
  const Handle none = indices({0}, {});
  BOOST_TEST_REQUIRE(AOTIP_ON(scatter_reduce_two_out)(self.get(), self.get(), 0, none.get(),
                                                      src.get(), "mean", 0) == 0,
                     reason());
  check_equal(self, {8, 2, 3, 7}, "nothing");
  const Handle scalar = tensor({}, kFloat32, {1});
  const Handle zero = indices({}, {0});
  BOOST_TEST_REQUIRE(
      AOTIP_ON(scatter_value_out)(scalar.get(), scalar.get(), 0, zero.get(), 5.0) == 0, reason());
  check_equal(scalar, {5}, "no dims");
}

BOOST_AUTO_TEST_CASE(what_scatters_refuse) {
  const Handle out = tensor({3}, kFloat32, {9, 9, 9});
  const Handle src = tensor({3}, kFloat32, {1, 2, 3});
  const Handle index = indices({2}, {0, 1});
  const auto call = [](const Handle& to, const Handle& at, const Handle& from, int64_t dim = 0) {
    return AOTIP_ON(scatter_src_out)(to.get(), to.get(), dim, at.get(), from.get());
  };
  refused(call(out, Handle(), src), "index is null");
  refused(call(out, index, Handle()), "src is null");
  refused(call(out, index, src, 1), "dim 1 is out of range");
  refused(call(out, indices({2}, {0, 1}, kInt32), src), "index is int32, expected int64");
  refused(call(out, indices({4}, {0, 1, 2, 0}), src),
          "size 4 of dim 0 of index is larger than that of self or src");
  refused(call(out, indices({1, 1}, {0}), src), "index has 2 dims, expected 1");
  refused(call(out, index, tensor({1, 3}, kFloat32, {1, 2, 3})), "index has 1 dims, expected 1");
  refused(call(out, index, tensor({3}, kInt64, {1, 2, 3})), "src is int64, expected float32");
  refused(call(empty({2}, kComplex64), index, empty({2}, kComplex64)),
          std::string("no scatter for complex64 on ") + kName);
  refused(AOTIP_ON(scatter_src_out)(out.get(), tensor({4}, kFloat32, {1, 2, 3, 4}).get(), 0,
                                    index.get(), src.get()),
          "the sizes of out and self differ");
  refused(
      AOTIP_ON(scatter_reduce_two_out)(out.get(), out.get(), 0, index.get(), src.get(), "xor", 1),
      "reduce is 'xor', expected sum, prod, mean, amax or amin");
  refused(
      AOTIP_ON(scatter_reduce_two_out)(out.get(), out.get(), 0, index.get(), src.get(), nullptr, 1),
      "reduce is null");
  check_equal(out, {9, 9, 9}, "untouched");
}

BOOST_AUTO_TEST_CASE(scatters_never_follow_an_index_out_of_range) {
  for (const double bad : {-1.0, 3.0, 10.0, 1099511627776.0, -1099511627776.0}) {
    // The rows around it show what is written beside it.
    const Handle memory = tensor({9}, kFloat32, Numbers(9, 1));
    const Ints sizes = {3};
    const Ints strides = {1};
    const Handle out = result_of([&](auto* ret) {
      return aoti_torch__reinterpret_tensor(memory.get(), 1, sizes.data(), strides.data(), 3, ret);
    });
    const Handle index = indices({2}, {bad, 1});
    const AOTITorchError code =
        AOTIP_ON(scatter_value_out)(out.get(), out.get(), 0, index.get(), 5.0);
    if (kOutOfRange == OutOfRange::kRefused) {
      refused(code, "is out of range for size 3");
    } else {
      BOOST_TEST(code == 0, reason());
      BOOST_TEST(takes_fault(*this));
    }
    const bool wrote = kOutOfRange != OutOfRange::kRefused;
    check_equal(memory, {1, 1, 1, 1, wrote ? 5.0 : 1.0, 1, 1, 1, 1}, "around");
    BOOST_TEST(!takes_fault(*this));
  }
}

BOOST_AUTO_TEST_CASE(puts_by_index) {
  const Handle self = tensor({3, 2}, kFloat32, Numbers(6, 0));
  const Handle out = empty({3, 2}, {1, 3}, kFloat32);
  const Handle rows = indices({2}, {2, -3});
  const Handle cols = indices({2}, {1, 0}, kInt32);
  const Handle values = tensor({2}, kFloat32, {5, 6});
  const AtenTensorHandle both[] = {rows.get(), cols.get()};
  const auto put = [&](const Handle& to, const AtenTensorHandle* at, uint32_t count,
                       const Handle& from, bool add) {
    return aoti_torch_index_put_out(to.get(), self.get(), at, count, from.get(), add);
  };
  if (!kHasIndexPut) {
    refused(put(out, both, 2, values, false), std::string("no index_put on ") + kName);
    return;
  }
  BOOST_TEST_REQUIRE(put(out, both, 2, values, false) == 0, reason());
  check_equal(out, {6, 0, 0, 0, 0, 5}, "numbers");
  const AtenTensorHandle twice[] = {nullptr, indices({2}, {1, 1}).release()};
  const Handle owner(twice[1]);
  BOOST_TEST_REQUIRE(put(out, twice, 2, tensor({}, kFloat32, {2}), true) == 0, reason());
  check_equal(out, {0, 4, 0, 4, 0, 4}, "added");
  const Handle mask = tensor({3}, kBool, {1, 0, 1});
  const AtenTensorHandle masked[] = {mask.get()};
  BOOST_TEST_REQUIRE(put(out, masked, 1, tensor({1, 2}, kFloat32, {3, 4}), false) == 0, reason());
  check_equal(out, {3, 4, 0, 0, 3, 4}, "mask");
  const Handle flat = tensor({2}, kBool, {1, 0});
  const AtenTensorHandle short_mask[] = {flat.get()};
  refused(put(out, short_mask, 1, values, false), "the mask has size 2 in dim 0, self has 3 there");
  refused(put(out, both, 2, tensor({3}, kFloat32, {1, 2, 3}), false),
          "size 3 of dim 0 of values does not broadcast to 2");
  refused(put(out, both, 2, tensor({2}, kInt64, {1, 2}), false), "values are int64");
  refused(put(empty({3, 3}, kFloat32), both, 2, values, false), "the sizes of out and self differ");
  refused(aoti_torch_index_put_out(out.get(), self.get(), nullptr, 2, values.get(), false),
          "indices is null");
  const Handle far = indices({2}, {2, 3});
  const AtenTensorHandle outside[] = {far.get(), cols.get()};
  const AOTITorchError code = put(out, outside, 2, values, false);
  if (kOutOfRange == OutOfRange::kRefused) {
    refused(code, "index 3 is out of range for dim 0 with size 3");
  } else {
    BOOST_TEST(code == 0, reason());
    BOOST_TEST(takes_fault(*this));
    check_equal(out, {0, 0, 0, 0, 0, 5}, "left out");
  }
}

BOOST_AUTO_TEST_SUITE_END()
