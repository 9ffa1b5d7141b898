// Every operator that all devices have, with the same cases on each of them: dtypes, strides, sizes
// of 0 and 1, no dims, aliases, bad arguments, indices out of range. What is expected is computed
// here, in the plainest way. Built once for each device (conformance_device.h).

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "conformance_device.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Numbers = std::vector<double>;

int64_t count_of(const Ints& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Small whole numbers in no order, which every dtype holds and adds exactly.
Numbers some(const Ints& sizes, int32_t dtype, uint32_t seed = 7) {
  Numbers values(static_cast<size_t>(count_of(sizes)));
  for (double& value : values) {
    seed = seed * 1664525u + 1013904223u;
    const int number = static_cast<int>(seed >> 8) % 4;
    value = dtype == kBool ? number % 2 : dtype == kUInt8 ? number : number - 1;
  }
  return values;
}

/// The ways in which a tensor of these sizes may lie in memory.
std::vector<Ints> layouts(const Ints& sizes) {
  Ints dense(sizes.size());
  Ints reversed(sizes.size());
  Ints gaps(sizes.size());
  int64_t step = 1;
  int64_t wide = 2;
  for (size_t d = sizes.size(); d-- > 0;) {
    dense[d] = step;
    gaps[d] = wide;
    step *= std::max<int64_t>(sizes[d], 1);
    wide = (wide + 1) * std::max<int64_t>(sizes[d], 1);
  }
  step = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    reversed[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  return {dense, reversed, gaps};
}

Handle empty(const Ints& sizes, const Ints& strides, int32_t dtype) {
  AtenTensorHandle raw = nullptr;
  BOOST_TEST_REQUIRE(aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(),
                                              strides.data(), dtype, kDevice, 0, &raw) == 0,
                     reason());
  return Handle(raw);
}

Handle empty(const Ints& sizes, int32_t dtype) {
  return empty(sizes, layouts(sizes)[0], dtype);
}

/// A tensor on the device with elements in the order of its indices, whatever its strides.
Handle tensor(const Ints& sizes, const Ints& strides, int32_t dtype, const Numbers& values) {
  const Handle wide = make(sizes, kFloat64);
  std::copy(values.begin(), values.end(), data_of<double>(wide));
  const Handle host = make(sizes, dtype);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(host.get(), wide.get(), 0) == 0, reason());
  Handle device = empty(sizes, strides, dtype);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(device.get(), host.get(), 0) == 0, reason());
  return device;
}

Handle tensor(const Ints& sizes, int32_t dtype, const Numbers& values) {
  return tensor(sizes, layouts(sizes)[0], dtype, values);
}

Handle indices(const Ints& sizes, const Numbers& values, int32_t dtype = kInt64) {
  return tensor(sizes, dtype, values);
}

/// The elements in the order of the indices.
Numbers read_all(const Handle& tensor) {
  const Tensor& t = *unwrap(tensor.get());
  const Ints sizes(t.sizes(), t.sizes() + t.ndim());
  const Handle host = make(sizes, t.dtype());
  const Handle wide = make(sizes, kFloat64);
  BOOST_TEST_REQUIRE(aoti_torch_copy_(host.get(), tensor.get(), 0) == 0, reason());
  BOOST_TEST_REQUIRE(aoti_torch_copy_(wide.get(), host.get(), 0) == 0, reason());
  return {data_of<double>(wide), data_of<double>(wide) + t.numel()};
}

void check_equal(const Handle& tensor, const Numbers& expected, const std::string& what) {
  const Numbers found = read_all(tensor);
  BOOST_TEST_REQUIRE(found.size() == expected.size(), what);
  for (size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST((found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))),
               what << ": element " << i << " is " << found[i] << ", expected " << expected[i]);
  }
}

void check_close(const Handle& tensor, const Numbers& expected, double tolerance,
                 const std::string& what) {
  const Numbers found = read_all(tensor);
  BOOST_TEST_REQUIRE(found.size() == expected.size(), what);
  for (size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST(std::abs(found[i] - expected[i]) <= tolerance * (1 + std::abs(expected[i])),
               what << ": element " << i << " is " << found[i] << ", expected " << expected[i]);
  }
}

void refused(AOTITorchError code, const std::string& part) {
  BOOST_TEST(code != 0, part);
  BOOST_TEST(reason().find(part) != std::string::npos, "'" << reason() << "' lacks " << part);
}

/// Runs a shim with one result.
template <typename Call>
Handle result_of(const Call& call) {
  AtenTensorHandle raw = nullptr;
  BOOST_TEST_REQUIRE(call(&raw) == 0, reason());
  return Handle(raw);
}

template <typename Call>
std::pair<Handle, Handle> results_of(const Call& call) {
  AtenTensorHandle first = nullptr;
  AtenTensorHandle second = nullptr;
  BOOST_TEST_REQUIRE(call(&first, &second) == 0, reason());
  return {Handle(first), Handle(second)};
}

/// Calls `body(positions)` with the positions, in the order of indices, of the elements of each
/// line along `dim`.
template <typename Body>
void each_line(const Ints& sizes, int64_t dim, const Body& body) {
  const size_t d = static_cast<size_t>(dim);
  const int64_t length = sizes.empty() ? 1 : sizes[d];
  const int64_t inner =
      sizes.empty() ? 1
                    : count_of(Ints(sizes.begin() + static_cast<ptrdiff_t>(d) + 1, sizes.end()));
  const int64_t lines = length > 0 ? count_of(sizes) / length : 0;
  for (int64_t line = 0; line < lines; ++line) {
    std::vector<size_t> positions;
    for (int64_t i = 0; i < length; ++i) {
      positions.push_back(
          static_cast<size_t>(line / inner * inner * length + i * inner + line % inner));
    }
    body(positions);
  }
}

const std::vector<Ints> kSizes = {{2, 3, 4}, {5}, {}, {3, 0, 2}, {1, 1}, {0}};

std::string title(const char* op, int32_t dtype, const Ints& sizes, int64_t dim) {
  std::string text = std::string(op) + " of " + dtype_name(dtype) + " [";
  for (const int64_t size : sizes) {
    text += std::to_string(size) + ",";
  }
  return text + "] along " + std::to_string(dim);
}

Handle on_another_device(const Ints& sizes, int32_t dtype) {
  AtenTensorHandle raw = nullptr;
  const Ints strides = layouts(sizes)[0];
  (void)aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(),
                                 dtype, kCpu, 0, &raw);
  return Handle(raw);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(conformance, DeviceFixture)

BOOST_AUTO_TEST_CASE(running_sums_and_products) {
  for (const int32_t dtype : kNumbers) {
    for (const Ints& sizes : kSizes) {
      const Numbers values = some(sizes, dtype);
      for (const Ints& strides : layouts(sizes)) {
        const Handle x = tensor(sizes, strides, dtype, values);
        for (int64_t dim = 0; dim < std::max<int64_t>(static_cast<int64_t>(sizes.size()), 1);
             ++dim) {
          for (const bool product : {false, true}) {
            Numbers expected = values;
            each_line(sizes, dim, [&](const std::vector<size_t>& line) {
              for (size_t i = 1; i < line.size(); ++i) {
                const double before = expected[line[i - 1]];
                expected[line[i]] = product ? before * values[line[i]] : before + values[line[i]];
              }
            });
            const Handle found = result_of([&](auto* ret) {
              return product ? AOTIP_ON(cumprod)(x.get(), dim, nullptr, ret)
                             : AOTIP_ON(cumsum)(x.get(), dim, nullptr, ret);
            });
            BOOST_TEST(unwrap(found.get())->dtype() == (is_integer(dtype) ? kInt64 : dtype));
            BOOST_TEST(unwrap(found.get())->is_contiguous());
            check_equal(found, expected, title("scan", dtype, sizes, dim));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(running_sums_as_another_dtype) {
  const Handle x = tensor({4}, kFloat32, {1.5, -2.5, 3.0, 0.25});
  int32_t dtype = kInt64;
  check_equal(result_of([&](auto* ret) { return AOTIP_ON(cumsum)(x.get(), 0, &dtype, ret); }),
              {1, -1, 2, 2}, "truncated first");
  dtype = kFloat32;
  const Handle flags = tensor({3}, kBool, {1, 0, 1});
  check_equal(result_of([&](auto* ret) { return AOTIP_ON(cumsum)(flags.get(), -1, &dtype, ret); }),
              {1, 1, 2}, "flags");
}

BOOST_AUTO_TEST_CASE(what_running_sums_refuse) {
  const Handle x = tensor({2, 2}, kFloat32, {1, 2, 3, 4});
  AtenTensorHandle raw = nullptr;
  refused(AOTIP_ON(cumsum)(nullptr, 0, nullptr, &raw), "self is null");
  refused(AOTIP_ON(cumsum)(x.get(), 0, nullptr, nullptr), "ret0 is null");
  refused(AOTIP_ON(cumsum)(x.get(), 2, nullptr, &raw), "dim 2 is out of range");
  refused(AOTIP_ON(cumsum)(x.get(), -3, nullptr, &raw), "dim -3 is out of range");
  const Handle complex = empty({2}, kComplex64);
  refused(AOTIP_ON(cumprod)(complex.get(), 0, nullptr, &raw),
          std::string("no running product of complex64 as complex64 on ") + kName);
  int32_t dtype = 99;
  refused(AOTIP_ON(cumsum)(x.get(), 0, &dtype, &raw), "no running sum of float32 as unknown dtype");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_CASE(sorts) {
  for (const int32_t dtype : kNumbers) {
    for (const Ints& sizes : kSizes) {
      Numbers values = some(sizes, dtype);
      if (is_real(dtype) && values.size() > 3) {
        values[1] = kNan;
      }
      for (const Ints& strides : layouts(sizes)) {
        const Handle x = tensor(sizes, strides, dtype, values);
        for (int64_t dim = 0; dim < static_cast<int64_t>(sizes.size()); ++dim) {
          for (const bool descending : {false, true}) {
            Numbers sorted = values;
            Numbers places(values.size());
            each_line(sizes, dim, [&](const std::vector<size_t>& line) {
              std::vector<size_t> order(line.size());
              std::iota(order.begin(), order.end(), size_t{0});
              std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
                const double left = values[line[descending ? b : a]];
                const double right = values[line[descending ? a : b]];
                return left < right || (std::isnan(right) && !std::isnan(left));
              });
              for (size_t i = 0; i < line.size(); ++i) {
                sorted[line[i]] = values[line[order[i]]];
                places[line[i]] = static_cast<double>(order[i]);
              }
            });
            const auto [found, at] = results_of([&](auto* first, auto* second) {
              return AOTIP_ON(sort_stable)(x.get(), nullptr, dim, descending, first, second);
            });
            check_equal(found, sorted, title("sort", dtype, sizes, dim));
            check_equal(at, places, title("places of sort", dtype, sizes, dim));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(takes_the_first_of_sorted_lines) {
  const Ints sizes = {3, 7};
  for (const int32_t dtype : {kFloat32, kInt64}) {
    const Numbers values = {4, 1, 3, 3, 0, 2, 4, 1, 1, 1, 1, 1, 1, 1, 6, 5, 4, 3, 2, 1, 0};
    for (const Ints& strides : layouts(sizes)) {
      const Handle x = tensor(sizes, strides, dtype, values);
      const auto [largest, places] =
          results_of([&](auto* a, auto* b) { return AOTIP_ON(topk)(x.get(), 3, 1, 1, 1, a, b); });
      check_equal(largest, {4, 4, 3, 1, 1, 1, 6, 5, 4}, "largest");
      check_equal(places, {0, 6, 2, 0, 1, 2, 0, 1, 2}, "places of the largest");
      const auto [smallest, rows] =
          results_of([&](auto* a, auto* b) { return AOTIP_ON(topk)(x.get(), 1, 0, 0, 1, a, b); });
      check_equal(smallest, {1, 1, 1, 1, 0, 1, 0}, "smallest");
      check_equal(rows, {1, 0, 1, 1, 0, 1, 2}, "rows of the smallest");
      const auto [none, nowhere] =
          results_of([&](auto* a, auto* b) { return AOTIP_ON(topk)(x.get(), 0, 1, 1, 0, a, b); });
      BOOST_TEST(read_all(none).empty());
      BOOST_TEST(read_all(nowhere).empty());
    }
  }
}

BOOST_AUTO_TEST_CASE(what_sorts_refuse) {
  const Handle x = tensor({2, 2}, kFloat32, {1, 2, 3, 4});
  const Handle complex = empty({2}, kComplex64);
  AtenTensorHandle a = nullptr;
  AtenTensorHandle b = nullptr;
  refused(AOTIP_ON(sort)(nullptr, 0, 0, &a, &b), "self is null");
  refused(AOTIP_ON(sort)(x.get(), 0, 0, nullptr, &b), "ret0 is null");
  refused(AOTIP_ON(sort)(x.get(), 0, 0, &a, nullptr), "ret1 is null");
  refused(AOTIP_ON(sort)(x.get(), 2, 0, &a, &b), "dim 2 is out of range");
  refused(AOTIP_ON(sort)(complex.get(), 0, 0, &a, &b), "complex64");
  refused(AOTIP_ON(topk)(x.get(), 3, 0, 0, 0, &a, &b), "k is 3, expected 0 to 2");
  refused(AOTIP_ON(topk)(x.get(), -1, 0, 0, 0, &a, &b), "k is -1, expected 0 to 2");
  BOOST_TEST((a == nullptr && b == nullptr));
}

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
    }
    const bool wrote = kOutOfRange != OutOfRange::kRefused;
    check_equal(memory, {1, 1, 1, 1, wrote ? 5.0 : 1.0, 1, 1, 1, 1}, "around");
#ifdef AOTIP_CONFORMANCE_CUDA
    BOOST_TEST((stream->check_fault() != Status::kOk));
#endif
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
    check_equal(out, {0, 0, 0, 0, 0, 5}, "left out");
  }
}

namespace {

struct Product {
  int64_t batch, m, n, k;
};

Numbers multiplied(const Product& p, const Numbers& a, const Numbers& b) {
  Numbers out(static_cast<size_t>(p.batch * p.m * p.n), 0);
  for (int64_t i = 0; i < p.batch * p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      for (int64_t x = 0; x < p.k; ++x) {
        out[static_cast<size_t>(i * p.n + j)] +=
            a[static_cast<size_t>(i * p.k + x)] *
            b[static_cast<size_t>((i / p.m * p.k + x) * p.n + j)];
      }
    }
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(multiplies_matrices) {
  std::vector<int32_t> dtypes = kReals;
  if (kMultipliesIntegers) {
    dtypes.push_back(kInt64);
  }
  const std::vector<Product> products = {{1, 3, 5, 4}, {1, 1, 1, 1}, {1, 2, 3, 0},
                                         {1, 0, 3, 2}, {2, 3, 2, 4}, {0, 2, 2, 2}};
  for (const int32_t dtype : dtypes) {
    for (const Product& p : products) {
      const bool batched = p.batch != 1;
      const auto sizes = [&](int64_t rows, int64_t cols) {
        return batched ? Ints{p.batch, rows, cols} : Ints{rows, cols};
      };
      const Ints a_sizes = sizes(p.m, p.k);
      const Ints b_sizes = sizes(p.k, p.n);
      const Ints out_sizes = sizes(p.m, p.n);
      const Numbers a = some(a_sizes, dtype);
      const Numbers b = some(b_sizes, dtype, 3);
      const Numbers plain = multiplied(p, a, b);
      for (size_t way = 0; way < 3; ++way) {
        const Handle x = tensor(a_sizes, layouts(a_sizes)[way], dtype, a);
        const Handle y = tensor(b_sizes, layouts(b_sizes)[(way + 1) % 3], dtype, b);
        const Handle out = empty(out_sizes, layouts(out_sizes)[(way + 2) % 3], dtype);
        const std::string what = title("product", dtype, out_sizes, p.k);
        BOOST_TEST_REQUIRE(
            (batched ? AOTIP_ON(bmm_out) : AOTIP_ON(mm_out))(out.get(), x.get(), y.get()) == 0,
            reason());
        check_equal(out, plain, what);
        const Numbers row = some({p.n}, dtype, 11);
        const Handle self = tensor({p.n}, dtype, row);
        BOOST_TEST_REQUIRE((batched ? AOTIP_ON(baddbmm_out) : AOTIP_ON(addmm_out))(
                               out.get(), self.get(), x.get(), y.get(), 2.0, 3.0) == 0,
                           reason());
        Numbers added = plain;
        for (size_t i = 0; i < added.size(); ++i) {
          added[i] = 3 * added[i] + 2 * row[i % static_cast<size_t>(p.n)];
        }
        check_equal(out, added, what + ", added");
        if (is_real(dtype)) {
          const Handle nans = tensor({p.n}, dtype, Numbers(static_cast<size_t>(p.n), kNan));
          BOOST_TEST_REQUIRE((batched ? AOTIP_ON(baddbmm_out) : AOTIP_ON(addmm_out))(
                                 out.get(), nans.get(), x.get(), y.get(), 0.0, 1.0) == 0,
                             reason());
          check_equal(out, plain, what + ", beta 0");
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_products_refuse) {
  const Handle a = tensor({2, 3}, kFloat32, Numbers(6, 1));
  const Handle b = tensor({3, 4}, kFloat32, Numbers(12, 1));
  const Handle out = tensor({2, 4}, kFloat32, Numbers(8, 9));
  const auto call = [](const Handle& to, const Handle& x, const Handle& y) {
    return AOTIP_ON(mm_out)(to.get(), x.get(), y.get());
  };
  refused(call(Handle(), a, b), "out is null");
  refused(call(out, Handle(), b), "the first matrix is null");
  refused(call(out, a, Handle()), "the second matrix is null");
  refused(call(out, a, a), "inner sizes differ: the first matrix has 3 columns, the second 2 rows");
  refused(call(a, a, b), "the result is [2, 3], expected [2, 4]");
  refused(call(out, tensor({3}, kFloat32, {1, 2, 3}), b),
          "the first matrix has 1 dims, expected 2");
  refused(call(out, a, tensor({3, 4}, kInt64, Numbers(12, 1))), "int64, expected float32");
  refused(call(empty({2, 4}, {1, 0}, kFloat32), a, b),
          "out has 4 elements at each address along dim 1, expected one");
  refused(AOTIP_ON(addmm_out)(out.get(), nullptr, a.get(), b.get(), 1, 1), "self is null");
  refused(AOTIP_ON(addmm_out)(out.get(), tensor({3}, kFloat32, {1, 2, 3}).get(), a.get(), b.get(),
                              1, 1),
          "size 3 of dim 0 of self does not broadcast to 4");
  const Handle complex = empty({2, 2}, kComplex64);
  refused(call(complex, complex, complex),
          std::string("no matrix product for complex64 on ") + kName);
  check_equal(out, Numbers(8, 9), "untouched");
}

BOOST_AUTO_TEST_CASE(convolves) {
  // Two images of two channels of [4, 5], and four kernels of [2, 3] over both.
  const Ints input_sizes = {2, 2, 4, 5};
  const Ints weight_sizes = {4, 2, 2, 3};
  const int64_t stride[] = {1, 2};
  const int64_t padding[] = {1, 0};
  const int64_t dilation[] = {2, 1};
  const int64_t none[] = {0, 0};
  for (const int32_t dtype : kReals) {
    const Numbers x = some(input_sizes, dtype);
    const Numbers w = some(weight_sizes, dtype, 3);
    const Numbers b = some({4}, dtype, 5);
    Numbers expected;
    for (int64_t at = 0; at < 2 * 4 * 4 * 2; ++at) {
      const int64_t n = at / 32, o = at / 8 % 4, i = at / 2 % 4, j = at % 2;
      double sum = b[static_cast<size_t>(o)];
      for (int64_t t = 0; t < 12; ++t) {
        const int64_t c = t / 6, u = t / 3 % 2, v = t % 3;
        const int64_t row = i - 1 + 2 * u, col = 2 * j + v;
        if (row >= 0 && row < 4) {
          sum += x[static_cast<size_t>(((n * 2 + c) * 4 + row) * 5 + col)] *
                 w[static_cast<size_t>(o * 12 + t)];
        }
      }
      expected.push_back(sum);
    }
    for (size_t way = 0; way < 3; ++way) {
      const Handle input = tensor(input_sizes, layouts(input_sizes)[way], dtype, x);
      const Handle weight = tensor(weight_sizes, layouts(weight_sizes)[(way + 1) % 3], dtype, w);
      const Handle bias = tensor({4}, dtype, b);
      AtenTensorHandle bias_handle = bias.get();
      const Handle found = result_of([&](auto* ret) {
        return AOTIP_ON(convolution)(input.get(), weight.get(), &bias_handle, stride, 2, padding, 2,
                                     dilation, 2, 0, none, 2, 1, ret);
      });
      check_equal(found, expected, title("convolution", dtype, input_sizes, 0));
    }
  }
  const Handle input = tensor(input_sizes, kFloat32, some(input_sizes, kFloat32));
  const Handle weight = tensor({4, 3, 2, 3}, kFloat32, some({4, 3, 2, 3}, kFloat32));
  const Handle fitting = tensor(weight_sizes, kFloat32, some(weight_sizes, kFloat32));
  AtenTensorHandle raw = nullptr;
  refused(AOTIP_ON(convolution)(input.get(), nullptr, nullptr, stride, 2, padding, 2, dilation, 2,
                                0, none, 2, 1, &raw),
          "weight is null");
  refused(AOTIP_ON(convolution)(input.get(), weight.get(), nullptr, stride, 2, padding, 2, dilation,
                                2, 0, none, 2, 1, &raw),
          "input has 2 channels, the weight expects 3");
  refused(AOTIP_ON(convolution)(input.get(), fitting.get(), nullptr, nullptr, 2, padding, 2,
                                dilation, 2, 0, none, 2, 1, &raw),
          "stride");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_CASE(draws_integers) {
  const Ints sizes = {40, 3};
  for (const int32_t dtype : {kInt64, kInt32, kFloat32, kUInt8}) {
    const Handle out = empty(sizes, dtype);
    BOOST_TEST_REQUIRE(AOTIP_ON(randint_low_out)(out.get(), 2, 5, sizes.data(), 2) == 0, reason());
    const Numbers values = read_all(out);
    for (const double number : {2.0, 3.0, 4.0}) {
      BOOST_TEST(std::count(values.begin(), values.end(), number) > 10);
    }
    BOOST_TEST(
        std::count_if(values.begin(), values.end(), [](double v) { return v < 2 || v > 4; }) == 0);
  }
  const Handle nothing = empty({0}, kInt64);
  const Ints zero = {0};
  BOOST_TEST(AOTIP_ON(randint_low_out)(nothing.get(), 0, 9, zero.data(), 1) == 0, reason());
  const Handle out = empty(sizes, kInt64);
  refused(AOTIP_ON(randint_low_out)(nullptr, 0, 9, sizes.data(), 2), "out is null");
  refused(AOTIP_ON(randint_low_out)(out.get(), 5, 5, sizes.data(), 2), "which leaves none");
  refused(AOTIP_ON(randint_low_out)(out.get(), 0, 5, sizes.data(), 1), "the sizes asked for");
  refused(AOTIP_ON(randint_low_out)(empty(sizes, {1, 40}, kInt64).get(), 0, 5, sizes.data(), 2),
          "out is not contiguous");
  refused(AOTIP_ON(randint_low_out)(empty(sizes, kComplex64).get(), 0, 5, sizes.data(), 2),
          "no random integers as complex64");
}

BOOST_AUTO_TEST_CASE(sees_other_dtypes) {
  const Handle x = tensor({2, 2}, kFloat32, {1, -2, 0, 3});
  const Handle bits =
      result_of([&](auto* ret) { return AOTIP_ON(view_dtype)(x.get(), kInt32, ret); });
  check_equal(bits, {0x3f800000, -1073741824, 0, 0x40400000}, "bits");
  AtenTensorHandle raw = nullptr;
  refused(AOTIP_ON(view_dtype)(x.get(), 99, &raw), "99 is not the code of a known dtype");
  refused(AOTIP_ON(view_as_real)(x.get(), &raw), "expected a complex tensor, found float32");
}

BOOST_AUTO_TEST_CASE(what_is_on_another_device_is_refused) {
  if (kDevice == kCpu) {
    return;  // there is no other
  }
  const Handle host = on_another_device({2, 2}, kFloat32);
  const Handle index = on_another_device({2, 2}, kInt64);
  const Handle here = tensor({2, 2}, kFloat32, {1, 2, 3, 4});
  const std::string expected = std::string(" is on cpu, expected ") + kName;
  AtenTensorHandle a = nullptr;
  AtenTensorHandle b = nullptr;
  refused(AOTIP_ON(cumsum)(host.get(), 0, nullptr, &a), "self" + expected);
  refused(AOTIP_ON(sort)(host.get(), 0, 0, &a, &b), "self" + expected);
  refused(AOTIP_ON(mm_out)(host.get(), here.get(), here.get()), "out" + expected);
  refused(AOTIP_ON(mm_out)(here.get(), host.get(), here.get()), "the first matrix" + expected);
  refused(AOTIP_ON(addmm_out)(here.get(), host.get(), here.get(), here.get(), 1, 1),
          "self" + expected);
  refused(AOTIP_ON(scatter_value_out)(here.get(), here.get(), 0, index.get(), 1),
          "index" + expected);
  refused(AOTIP_ON(scatter_value_out)(host.get(), here.get(), 0, index.get(), 1), "out" + expected);
  const int64_t sizes[] = {2, 2};
  refused(AOTIP_ON(randint_low_out)(host.get(), 0, 9, sizes, 2), "out" + expected);
}

BOOST_AUTO_TEST_SUITE_END()
