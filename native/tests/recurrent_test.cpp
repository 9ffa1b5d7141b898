// Recurrent layers on the CPU against their formulas in float64.

#include <aoti_plugins/shim.h>

#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <random>

#include "handle.h"

using namespace aoti_plugins::testing;
namespace data = boost::unit_test::data;

namespace {

constexpr int64_t kLstm = 0;
constexpr int64_t kGru = 1;
constexpr int64_t kTanh = 2;
constexpr int64_t kGates[] = {4, 3, 1, 1};

using Numbers = std::vector<double>;

struct Layer {
  int64_t kind, steps, batch, width;
  bool reverse;
  Numbers inputs, hidden, cell, weight, bias;

  int64_t columns() const { return kGates[kind] * width; }
};

Layer make_layer(int64_t kind, int64_t steps, int64_t batch, int64_t width, bool reverse) {
  std::mt19937 engine(static_cast<unsigned>(kind + steps + batch + width));
  std::normal_distribution<double> normal;
  const auto some = [&](int64_t count, double scale = 0.5) {
    Numbers values;
    for (int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<float>(scale * normal(engine)));
    }
    return values;
  };
  Layer l{kind, steps, batch, width, reverse, {}, {}, {}, {}, {}};
  l.inputs = some(steps * batch * l.columns());
  l.hidden = some(batch * width);
  l.cell = kind == kLstm ? some(batch * width) : Numbers{};
  l.weight = some(l.columns() * width, 0.5 / std::sqrt(1.0 + static_cast<double>(width)));
  l.bias = kind == kGru ? some(l.columns()) : Numbers{};
  return l;
}

struct Found {
  Numbers outputs, hidden, cell;
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

/// PyTorch's formulas, element by element.
Found expected_of(const Layer& l) {
  Found f{Numbers(static_cast<size_t>(l.steps * l.batch * l.width)), l.hidden, l.cell};
  for (int64_t index = 0; index < l.steps; ++index) {
    const int64_t step = l.reverse ? l.steps - 1 - index : index;
    const Numbers before = f.hidden;
    for (int64_t row = 0; row < l.batch; ++row) {
      for (int64_t i = 0; i < l.width; ++i) {
        const auto in = [&](int64_t gate) {
          return l.inputs[static_cast<size_t>((step * l.batch + row) * l.columns() +
                                              gate * l.width + i)];
        };
        const auto state = [&](int64_t gate) {
          const int64_t column = gate * l.width + i;
          double sum = l.bias.empty() ? 0 : l.bias[static_cast<size_t>(column)];
          for (int64_t k = 0; k < l.width; ++k) {
            sum += before[static_cast<size_t>(row * l.width + k)] *
                   l.weight[static_cast<size_t>(column * l.width + k)];
          }
          return sum;
        };
        const auto place = static_cast<size_t>(row * l.width + i);
        double h = 0;
        if (l.kind == kLstm) {
          f.cell[place] = sigmoid(in(1) + state(1)) * f.cell[place] +
                          sigmoid(in(0) + state(0)) * std::tanh(in(2) + state(2));
          h = sigmoid(in(3) + state(3)) * std::tanh(f.cell[place]);
        } else if (l.kind == kGru) {
          const double n = std::tanh(in(2) + sigmoid(in(0) + state(0)) * state(2));
          h = (before[place] - n) * sigmoid(in(1) + state(1)) + n;
        } else if (l.kind == kTanh) {
          h = std::tanh(in(0) + state(0));
        } else {
          h = std::max(in(0) + state(0), 0.0);
        }
        f.hidden[place] = h;
        f.outputs[static_cast<size_t>(step * l.batch * l.width) + place] = h;
      }
    }
  }
  return f;
}

template <typename T>
Handle tensor(const Ints& sizes, int32_t dtype, const Numbers& values) {
  Handle h = make(sizes, dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    data_of<T>(h)[i] = static_cast<T>(values[i]);
  }
  return h;
}

template <typename T>
Numbers numbers_of(const Handle& h) {
  int64_t numel = 0;
  (void)aoti_torch_get_numel(h.get(), &numel);
  return Numbers(data_of<T>(h), data_of<T>(h) + numel);
}

/// The tensors of a call.
struct Call {
  Handle inputs, hidden, cell, weight, bias;
  int64_t kind;
  bool reverse;
  Handle results[3] = {};

  int32_t run() {
    AtenTensorHandle found[3] = {};
    AtenTensorHandle cell_handle = cell.get();
    AtenTensorHandle bias_handle = bias.get();
    const int32_t code = aoti_torch_cpu_recurrent_layer(
        inputs.get(), hidden.get(), cell != nullptr ? &cell_handle : nullptr, weight.get(),
        bias != nullptr ? &bias_handle : nullptr, kind, reverse ? 1 : 0, &found[0], &found[1],
        &found[2]);
    for (int i = 0; i < 3; ++i) {
      results[i].reset(found[i]);
    }
    return code;
  }
};

template <typename T>
Call call_of(const Layer& l, int32_t dtype) {
  Call call;
  call.kind = l.kind;
  call.reverse = l.reverse;
  call.inputs = tensor<T>({l.steps, l.batch, l.columns()}, dtype, l.inputs);
  call.hidden = tensor<T>({l.batch, l.width}, dtype, l.hidden);
  call.weight = tensor<T>({l.columns(), l.width}, dtype, l.weight);
  if (!l.cell.empty() || l.kind == kLstm) {
    call.cell = tensor<T>({l.batch, l.width}, dtype, l.cell);
  }
  if (l.kind == kGru) {
    call.bias = tensor<T>({l.columns()}, dtype, l.bias);
  }
  return call;
}

void check_near(const Numbers& found, const Numbers& expected, double tolerance) {
  BOOST_TEST_REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST(std::abs(found[i] - expected[i]) <= tolerance,
               "element " << i << ": " << found[i] << ", expected " << expected[i]);
  }
}

template <typename T>
void check_layer(const Layer& l, int32_t dtype, double tolerance) {
  Call call = call_of<T>(l, dtype);
  BOOST_TEST_REQUIRE(call.run() == 0, reason());
  const Found expected = expected_of(l);
  check_near(numbers_of<T>(call.results[0]), expected.outputs, tolerance);
  check_near(numbers_of<T>(call.results[1]), expected.hidden, tolerance);
  check_near(numbers_of<T>(call.results[2]), expected.cell, tolerance);
}

}  // namespace

BOOST_DATA_TEST_CASE(every_kind_in_both_directions, data::xrange(4) * data::make({0, 1}), kind,
                     reverse) {
  for (const int64_t width : {1, 5, 70}) {
    check_layer<float>(make_layer(kind, 7, 3, width, reverse != 0), aoti_torch_dtype_float32(),
                       2e-5);
    check_layer<double>(make_layer(kind, 7, 3, width, reverse != 0), aoti_torch_dtype_float64(),
                        1e-12);
  }
}

BOOST_DATA_TEST_CASE(on_several_threads, data::xrange(4), kind) {
  check_layer<float>(make_layer(kind, 2, 96, 128, false), aoti_torch_dtype_float32(), 1e-3);
}

BOOST_DATA_TEST_CASE(sizes_of_zero_and_one, data::xrange(4), kind) {
  for (const int64_t steps : {0, 1}) {
    for (const int64_t batch : {0, 1}) {
      for (const int64_t width : {0, 1}) {
        check_layer<float>(make_layer(kind, steps, batch, width, true), aoti_torch_dtype_float32(),
                           1e-6);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(nan_and_infinity_stay_in_their_row) {
  Layer l = make_layer(kLstm, 3, 3, 4, false);
  l.inputs[0] = std::numeric_limits<double>::quiet_NaN();
  l.inputs[static_cast<size_t>(l.columns())] = std::numeric_limits<double>::infinity();
  Call call = call_of<float>(l, aoti_torch_dtype_float32());
  BOOST_TEST_REQUIRE(call.run() == 0, reason());
  const Numbers found = numbers_of<float>(call.results[1]);
  const Numbers expected = expected_of(l).hidden;
  for (size_t i = 0; i < found.size(); ++i) {
    BOOST_TEST(std::isnan(found[i]) == std::isnan(expected[i]), "element " << i);
    BOOST_TEST((std::isnan(found[i]) || std::abs(found[i] - expected[i]) < 1e-5), "element " << i);
  }
  BOOST_TEST(std::isnan(found[0]));
  BOOST_TEST(!std::isnan(found[4]));
}

BOOST_AUTO_TEST_CASE(wrong_arguments_are_refused) {
  const int32_t f32 = aoti_torch_dtype_float32();
  const auto refused = [&](const char* expected, int64_t kind, const auto& change) {
    Call call = call_of<float>(make_layer(kind, 2, 3, 4, false), f32);
    change(call);
    BOOST_TEST(call.run() != 0);
    BOOST_TEST(reason().find(expected) != std::string::npos, reason());
  };
  refused("kind 4", kTanh, [](Call& c) { c.kind = 4; });
  refused("inputs is null", kLstm, [](Call& c) { c.inputs.reset(); });
  refused("inputs have 2 dims", kLstm, [&](Call& c) { c.inputs = make({2, 16}, f32); });
  refused("multiple of 3", kGru, [&](Call& c) { c.inputs = make({2, 3, 16}, f32); });
  refused("hidden has size 5 in dim 1, expected 4", kLstm,
          [&](Call& c) { c.hidden = make({3, 5}, f32); });
  refused("weight has size 12 in dim 0, expected 16", kLstm,
          [&](Call& c) { c.weight = make({12, 4}, f32); });
  refused("weight is not contiguous", kLstm,
          [&](Call& c) { c.weight = make({16, 4}, {1, 16}, f32); });
  refused("weight is float64, expected float32", kLstm,
          [](Call& c) { c.weight = make({16, 4}, aoti_torch_dtype_float64()); });
  refused("an LSTM needs a cell", kLstm, [](Call& c) { c.cell.reset(); });
  refused("only an LSTM has a cell", kTanh, [&](Call& c) { c.cell = make({3, 4}, f32); });
  refused("only a GRU has a bias", kTanh, [&](Call& c) { c.bias = make({4}, f32); });
  refused("no recurrent layer of int64", kTanh,
          [](Call& c) { c.inputs = make({2, 3, 4}, aoti_torch_dtype_int64()); });
}
