// Products of rows with matrices of experts of 4 and 8 bits, over a stand-in for the driver that
// runs our kernels on the host; against sums in float64.

#include <algorithm>
#include <limits>
#include <utility>

#include "cuda_around_products.h"
#include "cuda_packed_weight.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

/// Sizes: `rows` results of `m` rows of x, with matrices [n, k] of `count` experts.
struct Sizes {
  int64_t m;
  int64_t rows;
  int64_t n;
  int64_t k;
  int64_t count;
};

/// What is beside the product; handles are null for none.
struct Beside {
  Handle factors;
  Handle residual;
  int64_t gate = 0;
  Handle norm;
  bool is_second = false;
};

constexpr double kEpsilon = 0.25;

AOTITorchError call(const Handle& x, const Handle& experts, const Weight& weight, const Form& form,
                    int64_t count, const Beside& beside, AtenTensorHandle* ret) {
  AtenTensorHandle handles[] = {weight.zero.get(), beside.norm.get(), beside.factors.get(),
                                beside.residual.get()};
  AtenTensorHandle* given[4];
  for (size_t i = 0; i < 4; ++i) {
    given[i] = handles[i] != nullptr ? &handles[i] : nullptr;
  }
  return aoti_torch_cuda_expert_linear(x.get(), experts.get(), weight.codes.get(),
                                       weight.scale.get(), given[0], given[1], given[2], given[3],
                                       count, form.bits, form.group_size, form.zero_kind, kEpsilon,
                                       beside.gate, beside.is_second ? 1 : 0, ret);
}

/// Numbers of experts in no order, some of them often, some of them from the end.
std::vector<int64_t> some_experts(int64_t rows, int64_t count) {
  std::vector<int64_t> found;
  uint32_t state = 11;
  for (int64_t i = 0; i < rows; ++i) {
    state = state * 1664525u + 1013904223u;
    const int64_t one = static_cast<int64_t>(state >> 20) % count;
    found.push_back(i % 5 == 4 ? one - count : i % 3 == 0 ? one / 2 : one);
  }
  return found;
}

Handle integers(const std::vector<int64_t>& values) {
  Handle tensor = make({static_cast<int64_t>(values.size())}, kInt64);
  std::copy(values.begin(), values.end(), data_of<int64_t>(tensor));
  return to_gpu(tensor);
}

/// Products in float64, [rows, n] with the magnitudes of what was added up.
struct Expected {
  std::vector<double> sums;
  std::vector<double> magnitudes;
};

/// Rows divided by the root of their mean square, times factors.
std::vector<double> normed(const std::vector<double>& x, const std::vector<double>& factors) {
  std::vector<double> found(x);
  const size_t k = factors.size();
  for (size_t first = 0; first < x.size(); first += k) {
    double square = 0;
    for (size_t i = first; i < first + k; ++i) {
      square += x[i] * x[i];
    }
    for (size_t i = first; i < first + k; ++i) {
      found[i] *= factors[i - first] / std::sqrt(square / static_cast<double>(k) + kEpsilon);
    }
  }
  return found;
}

Expected products(const Sizes& s, const std::vector<double>& x, const std::vector<double>& values,
                  const std::vector<int64_t>& experts) {
  Expected found;
  for (int64_t row = 0; row < s.rows; ++row) {
    const int64_t given = experts[static_cast<size_t>(row)];
    const int64_t expert = given < 0 ? given + s.count : given;
    for (int64_t column = 0; column < s.n; ++column) {
      double sum = 0;
      double magnitude = 1;
      for (int64_t i = 0; i < s.k; ++i) {
        const double one = x[static_cast<size_t>(row / (s.rows / s.m) * s.k + i)] *
                           values[static_cast<size_t>((expert * s.n + column) * s.k + i)];
        sum += one;
        magnitude += std::abs(one);
      }
      found.sums.push_back(sum);
      found.magnitudes.push_back(magnitude);
    }
  }
  return found;
}

/// The largest error beyond the result's rounding, for each unit of what was added up.
double worst_of(const std::vector<double>& result, const Expected& expected) {
  BOOST_TEST_REQUIRE(result.size() == expected.sums.size());
  double worst = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    const double error = std::abs(result[i] - expected.sums[i]);
    worst = std::max(worst, (error - std::abs(expected.sums[i]) / 250) / expected.magnitudes[i]);
  }
  return worst;
}

void check_rows(const Form& form, const Sizes& s, int64_t gate = 0, bool has_norm = false) {
  BOOST_TEST_INFO_SCOPE(form.bits << " bits, groups of " << form.group_size << ", zeros "
                                  << form.zero_kind << ", " << s.rows << " results of [" << s.m
                                  << ", " << s.k << "] x " << s.n << ", gate " << gate << ", norm "
                                  << has_norm);
  const Weight weight = weight_of(form, s.count * s.n, s.k);
  const Handle x = host_numbers({s.m, s.k}, form.dtype, 7);
  const Handle norm = host_numbers({s.k}, form.dtype, 5);
  const std::vector<int64_t> experts = some_experts(s.rows, s.count);
  const Handle found = one([&](auto* ret) {
    return call(to_gpu(x), integers(experts), weight, form, s.count,
                {nullptr, nullptr, gate, has_norm ? to_gpu(norm) : nullptr}, ret);
  });
  const std::vector<double> rows = has_norm ? normed(numbers(x), numbers(norm)) : numbers(x);
  Expected expected = products(s, rows, weight.values, experts);
  if (gate != 0) {
    Expected gated;
    for (int64_t i = 0; i < s.rows * s.n / 2; ++i) {
      const auto a = static_cast<size_t>(i / (s.n / 2) * s.n + i % (s.n / 2));
      const size_t b = a + static_cast<size_t>(s.n / 2);
      gated.sums.push_back(activated(expected.sums[a], gate) * expected.sums[b]);
      gated.magnitudes.push_back(expected.magnitudes[a] * (std::abs(expected.sums[b]) + 1) +
                                 expected.magnitudes[b] * (std::abs(expected.sums[a]) + 1));
    }
    expected = gated;
  }
  const int64_t columns = gate != 0 ? s.n / 2 : s.n;
  BOOST_TEST(sizes_of(found) == (Ints{s.rows, columns}), boost::test_tools::per_element());
  BOOST_TEST(worst_of(numbers(found), expected) < (gate != 0 || has_norm ? 4e-3 : 1e-4));
}

void check_sum(const Form& form, const Sizes& s, int64_t chosen, bool has_residual) {
  BOOST_TEST_INFO_SCOPE(form.bits << " bits, groups of " << form.group_size << ", sums of "
                                  << chosen << " of " << s.rows << " rows of " << s.k << " x "
                                  << s.n);
  const Weight weight = weight_of(form, s.count * s.n, s.k);
  const Handle x = host_numbers({s.rows, s.k}, form.dtype, 7);
  const std::vector<int64_t> experts = some_experts(s.rows, s.count);
  const int64_t m = s.rows / chosen;
  const Handle factors = host_numbers({m, chosen}, kFloat32, 5);
  const Handle residual = host_numbers({m, s.n}, form.dtype, 6);
  const Handle found = one([&](auto* ret) {
    return call(
        to_gpu(x), integers(experts), weight, form, s.count,
        {to_gpu(factors), has_residual ? to_gpu(residual) : nullptr, 0, nullptr, has_residual},
        ret);
  });
  const Expected each = products(s, numbers(x), weight.values, experts);
  const std::vector<double> shares = numbers(factors);
  const std::vector<double> added = numbers(residual);
  Expected expected;
  for (int64_t i = 0; i < m * s.n; ++i) {
    double sum = has_residual ? added[static_cast<size_t>(i)] : 0;
    double magnitude = 1;
    for (int64_t at = 0; at < chosen; ++at) {
      const int64_t row = i / s.n * chosen + at;
      const double share = shares[static_cast<size_t>(row)];
      const auto place = static_cast<size_t>(row * s.n + i % s.n);
      sum += share * each.sums[place];
      magnitude += std::abs(share) * each.magnitudes[place];
    }
    expected.sums.push_back(sum);
    expected.magnitudes.push_back(magnitude);
  }
  BOOST_TEST(sizes_of(found) == (Ints{m, s.n}), boost::test_tools::per_element());
  BOOST_TEST(worst_of(numbers(found), expected) < 4e-3);
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_expert_linear, CudaFixture)

BOOST_AUTO_TEST_CASE(multiplies_with_all_forms) {
  for (const int64_t bits : {4, 8}) {
    for (const int64_t group_size : {32, 64, 128, 256}) {
      for (const int64_t zero_kind : {0, 1, 2}) {
        const int32_t dtype = zero_kind == 1 ? kFloat16 : kBFloat16;
        const int32_t scale_dtype = group_size == 64 ? kFloat32 : dtype;
        const Form form{bits, group_size, zero_kind, dtype, scale_dtype};
        check_rows(form, {2, 6, 24, 256, 5});
        check_sum(form, {4, 4, 24, 256, 5}, 2, zero_kind == 2);
      }
    }
  }
}

// As kernels/streamed_row.cu divides them: below each other for one row, with a chunk for each warp
// and more; beside each other all of some experts in a stage, or a part of one.
BOOST_AUTO_TEST_CASE(streams_matrices_of_one_row) {
  for (const int64_t group_size : {32, 64, 128}) {
    const Form form{4, group_size, 0, kBFloat16, kBFloat16};
    check_rows(form, {1, 3, 32, 256, 7});
    check_rows(form, {1, 8, 48, 2048, 4}, 1);
    check_rows(form, {1, 2, 16, 2304, 3}, 2);
    check_rows(form, {1, 2, 1040, 384, 3});
    check_rows(form, {1, 2, 16, 256, 3}, 0, true);
    check_rows(form, {1, 8, 48, 2304, 4}, 1, true);
    check_rows(form, {2, 4, 48, 256, 4}, 1, true);
    check_sum(form, {8, 8, 48, 768, 4}, 8, true);
    check_sum(form, {3, 3, 16, 256, 4}, 3, false);
    check_sum(form, {2, 2, 16, 5120, 2}, 2, true);
    check_rows({4, group_size, 0, kFloat16, kFloat16}, {1, 3, 32, 256, 7});
    check_sum({4, group_size, 0, kFloat16, kFloat16}, {2, 2, 16, 256, 3}, 2, true);
  }
}

BOOST_AUTO_TEST_CASE(puts_many_rows_in_order) {
  for (const int64_t bits : {4, 8}) {
    const Form form{bits, 32, 0, kBFloat16, kBFloat16};
    check_rows(form, {9, 9, 24, 96, 3});
    check_rows(form, {75, 150, 16, 64, 4}, 1);
    check_rows(form, {40, 40, 8, 64, 1500});
    check_sum(form, {60, 60, 16, 64, 3}, 4, true);
  }
}

BOOST_AUTO_TEST_CASE(takes_any_strides) {
  const Form form{4, 32, 0, kBFloat16, kBFloat16};
  const Weight weight = weight_of(form, 3 * 16, 256);
  const Handle x = host_numbers({2, 256}, kBFloat16);
  Handle experts = make({2}, kInt64);
  data_of<int64_t>(experts)[0] = 2;
  data_of<int64_t>(experts)[1] = 0;
  const Handle factors = host_numbers({1, 2}, kFloat32);
  const auto sum = [&](const Handle& rows, const Handle& chosen, const Handle& shares) {
    return one([&](auto* ret) {
      return call(rows, chosen, weight, form, 3, {to_gpu(shares, {8, 4}), nullptr, 0}, ret);
    });
  };
  const Handle plain = one([&](auto* ret) {
    return call(to_gpu(x), to_gpu(experts), weight, form, 3, {to_gpu(factors), nullptr, 0}, ret);
  });
  check_same(sum(to_gpu(x, {300, 1}), to_gpu(experts, {5}), factors), plain);
}

BOOST_AUTO_TEST_CASE(leaves_experts_out_of_range_out_of_sums) {
  const Form form{4, 32, 0, kBFloat16, kBFloat16};
  const Weight weight = weight_of(form, 3 * 16, 256);
  const Handle x = to_gpu(host_numbers({2, 256}, kBFloat16));
  const auto sum = [&](const std::vector<int64_t>& experts, const std::vector<float>& factors) {
    Handle shares = make({1, 2}, kFloat32);
    std::copy(factors.begin(), factors.end(), data_of<float>(shares));
    return one([&](auto* ret) {
      return call(x, integers(experts), weight, form, 3, {to_gpu(shares), nullptr, 0}, ret);
    });
  };
  const Handle alone = sum({1, 0}, {2, 0});
  for (const int64_t other : {int64_t{3}, int64_t{-4}, int64_t{1} << 40}) {
    check_same(sum({1, other}, {2, 3}), alone);
  }
}

BOOST_AUTO_TEST_CASE(chooses_the_largest_scores) {
  for (const int32_t dtype : {kBFloat16, kFloat16, kFloat32}) {
    for (const auto& [count, chosen] :
         {std::pair<int64_t, int64_t>{8, 2}, {128, 8}, {130, 32}, {512, 5}, {3, 3}}) {
      for (const int32_t is_normalised : {0, 1}) {
        const Handle scores = host_numbers({6, count}, dtype, 37);  // some of them equal
        const auto [shares, experts] = two([&](auto* first, auto* second) {
          return aoti_torch_cuda_chosen_experts(to_gpu(scores).get(), chosen, is_normalised, first,
                                                second);
        });
        const std::vector<double> given = numbers(scores);
        const std::vector<double> found = numbers(shares);
        const std::vector<double> places = numbers(experts);
        for (int64_t row = 0; row < 6; ++row) {
          std::vector<int64_t> order;
          for (int64_t i = 0; i < count; ++i) {
            order.push_back(i);
          }
          const auto score = [&, row = row, count = count](int64_t i) {
            return given[static_cast<size_t>(row * count + i)];
          };
          std::stable_sort(order.begin(), order.end(),
                           [&](int64_t a, int64_t b) { return score(a) > score(b); });
          double all = 0;
          for (int64_t i = 0; i < (is_normalised != 0 ? chosen : count); ++i) {
            all += std::exp(score(order[static_cast<size_t>(i)]));
          }
          for (int64_t i = 0; i < chosen; ++i) {
            const auto at = static_cast<size_t>(row * chosen + i);
            const int64_t expected = order[static_cast<size_t>(i)];
            BOOST_TEST(static_cast<int64_t>(places[at]) == expected);
            BOOST_TEST(std::abs(found[at] - std::exp(score(expected)) / all) < 1e-5);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(chooses_experts_whatever_the_scores_are) {
  Handle scores = make({2, 4}, kFloat32);
  const float least = -std::numeric_limits<float>::infinity();
  const float none = std::numeric_limits<float>::quiet_NaN();
  const float given[] = {least, least, 1, least, none, none, none, none};
  std::copy(std::begin(given), std::end(given), data_of<float>(scores));
  const auto [shares, experts] = two([&](auto* first, auto* second) {
    return aoti_torch_cuda_chosen_experts(to_gpu(scores).get(), 3, 0, first, second);
  });
  const std::vector<double> places = numbers(experts);
  BOOST_TEST(places[0] == 2);
  for (size_t row : {size_t{0}, size_t{3}}) {
    std::vector<double> sorted(places.begin() + static_cast<std::ptrdiff_t>(row),
                               places.begin() + static_cast<std::ptrdiff_t>(row) + 3);
    std::sort(sorted.begin(), sorted.end());
    BOOST_TEST((sorted[0] >= 0 && sorted[2] < 4));
    BOOST_TEST((sorted[0] < sorted[1] && sorted[1] < sorted[2]));
  }
  BOOST_TEST(numbers(shares)[0] == 1);
}

BOOST_AUTO_TEST_CASE(refuses_what_does_not_go_together) {
  const Form form{4, 32, 0, kBFloat16, kBFloat16};
  const Weight weight = weight_of(form, 4 * 16, 64);
  const auto rows = [](int64_t m) { return to_gpu(host_numbers({m, 64}, kBFloat16)); };
  AtenTensorHandle raw = nullptr;
  const auto refused = [&](const Handle& x, const Handle& experts, int64_t count,
                           const Beside& beside, const char* reason) {
    check_refused(call(x, experts, weight, form, count, beside, &raw), reason);
  };
  const auto three = [] { return integers({0, 1, 2}); };
  refused(rows(2), three(), 4, {}, "3 experts for 2 rows");
  refused(rows(1), to_gpu(host_numbers({3}, kFloat32)), 4, {}, "experts is not an int64 vector");
  refused(rows(1), three(), 3, {}, "the weight is not of 3 experts");
  refused(rows(1), three(), 0, {}, "the weight is not of 0 experts");
  refused(to_gpu(host_numbers({1, 1, 64}, kBFloat16)), three(), 4, {}, "x has 3 dims, expected 2");
  refused(rows(1), three(), 8, {nullptr, nullptr, 1}, "a gate of 8 columns");
  const Weight floats = float_weight_of({8, 32, 3, 0, 0}, 4 * 16, 64, false);
  check_refused(call(rows(1), three(), floats, {8, 32, 3, 0, 0}, 4, {}, &raw),
                "weights of experts are floats of few bits");
  refused(rows(3), three(), 4, {nullptr, rows(1), 0}, "a residual without factors");
  const auto factors = [](int64_t m, int64_t chosen) {
    return to_gpu(host_numbers({m, chosen}, kFloat32));
  };
  refused(rows(1), three(), 4, {factors(1, 3), nullptr, 0}, "factors is not float32");
  refused(rows(3), three(), 4, {factors(1, 3), nullptr, 0, to_gpu(host_numbers({64}, kBFloat16))},
          "without gate and norm");
  refused(rows(1), three(), 4, {nullptr, nullptr, 0, to_gpu(host_numbers({32}, kBFloat16))},
          "the norm is not [64] of bfloat16");
  refused(rows(3), three(), 4, {factors(1, 3), rows(1), 0}, "the residual is not as the result");
  const Form halves{4, 32, 2, kBFloat16, kFloat16};
  check_refused(call(rows(1), three(), weight_of(halves, 4 * 16, 64), halves, 4, {}, &raw),
                "scale is float16, expected bfloat16 or float32");
  AtenTensorHandle other = nullptr;
  const auto not_chosen = [&](const Handle& scores, int64_t chosen, const char* reason) {
    check_refused(aoti_torch_cuda_chosen_experts(scores.get(), chosen, 0, &raw, &other), reason);
  };
  not_chosen(to_gpu(host_numbers({1, 8}, kFloat64)), 2, "scores is float64, expected float16,");
  not_chosen(to_gpu(host_numbers({1, 600}, kFloat32)), 2, "scores is not [rows, 1 to 512]");
  not_chosen(to_gpu(host_numbers({1, 8}, kFloat32)), 9, "9 of 8 experts");
  not_chosen(host_numbers({1, 8}, kFloat32), 2, "scores is on cpu, expected cuda");
  BOOST_TEST(raw == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
