#include "slim/tensor.h"

#include <boost/test/unit_test.hpp>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "slim/strided_copy.h"

using namespace aoti_plugins;

namespace {

struct Destroy {
  void operator()(Tensor* tensor) const { Tensor::destroy(tensor); }
};
using Owned = std::unique_ptr<Tensor, Destroy>;
using Sizes = std::vector<int64_t>;

Owned empty(const Sizes& sizes, int32_t dtype = kFloat32) {
  return Owned(Tensor::empty(static_cast<int64_t>(sizes.size()), sizes.data(), dtype, Device{}));
}

Owned strided(const Sizes& sizes, const Sizes& strides, int32_t dtype = kFloat32) {
  return Owned(Tensor::empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(),
                                     strides.data(), dtype, Device{}));
}

/// Copies between three dims with such strides, and looks at each element.
void check_copy(const Sizes& sizes, const Sizes& to, const Sizes& from, int32_t dtype) {
  const Owned dst = strided(sizes, to, dtype);
  const Owned src = strided(sizes, from, dtype);
  const size_t item = src->itemsize();
  for (size_t i = 0; i < src->storage_nbytes(); ++i) {
    src->data_as<uint8_t>()[i] = static_cast<uint8_t>(i * 7 + i / 256 + 1);
  }
  std::memset(dst->data(), 0, dst->storage_nbytes());
  BOOST_TEST((strided_copy(*dst, *src) == Status::kOk));
  int64_t wrong = 0;
  for (int64_t i = 0; i < sizes[0] * sizes[1] * sizes[2]; ++i) {
    const int64_t at[] = {i / (sizes[1] * sizes[2]), i / sizes[2] % sizes[1], i % sizes[2]};
    size_t d = 0;
    size_t s = 0;
    for (size_t k = 0; k < 3; ++k) {
      d += static_cast<size_t>(at[k] * to[k]) * item;
      s += static_cast<size_t>(at[k] * from[k]) * item;
    }
    wrong += std::memcmp(dst->data_as<char>() + d, src->data_as<char>() + s, item) != 0 ? 1 : 0;
  }
  BOOST_TEST(wrong == 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tensor)

BOOST_AUTO_TEST_CASE(zero_dim_has_one_element) {
  const Owned t = empty({});
  BOOST_TEST(t->ndim() == 0);
  BOOST_TEST(t->numel() == 1);
  BOOST_TEST(t->storage_nbytes() == 4u);
  BOOST_TEST(t->data() != nullptr);
  BOOST_TEST(t->is_contiguous());
}

BOOST_AUTO_TEST_CASE(empty_has_no_data) {
  const Owned t = empty({2, 0, 3});
  BOOST_TEST(t->numel() == 0);
  BOOST_TEST(t->data() == nullptr);
  BOOST_TEST(t->storage_nbytes() == 0u);
  BOOST_TEST(t->stride(0) == 3);
}

BOOST_AUTO_TEST_CASE(memory_is_aligned) {
  for (int64_t n : {1, 3, 17, 1000, 100000}) {
    const Owned t = empty({n}, kInt8);
    BOOST_TEST(reinterpret_cast<uintptr_t>(t->data()) % kStorageAlignment == 0u);
    std::memset(t->data(), 1, static_cast<size_t>(n));
  }
}

BOOST_AUTO_TEST_CASE(views_share_memory_and_keep_it) {
  Owned base = empty({4, 6});
  base->data_as<float>()[8] = 5.0f;
  const Sizes sizes{3};
  const Sizes strides{6};
  const Owned view(base->view(1, sizes.data(), strides.data(), 2, kFloat32));
  BOOST_TEST(view->data_as<float>() == base->data_as<float>() + 2);
  base.reset();
  BOOST_TEST(view->data_as<float>()[6] == 5.0f);
}

BOOST_AUTO_TEST_CASE(a_view_may_not_leave_its_storage) {
  const Owned base = empty({4});
  const Sizes sizes{2};
  const Sizes strides{3};
  BOOST_TEST(Owned(base->view(1, sizes.data(), strides.data(), 0, kFloat32)).get() != nullptr);
  BOOST_TEST(Owned(base->view(1, sizes.data(), strides.data(), 1, kFloat32)).get() == nullptr);
  BOOST_TEST(std::string(last_failure()) ==
             "a view that ends at byte 20 leaves its storage of 16 bytes");
}

// What torch.empty_like gives of tensors that were expanded, cut out of larger ones, or permuted.
BOOST_AUTO_TEST_CASE(a_tensor_like_an_expanded_one_is_laid_out_as_pytorch_does) {
  struct Case {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    std::vector<int64_t> expected;
  };
  const std::vector<Case> cases = {
      {{2, 3}, {0, 1}, {3, 1}},           {{2, 3}, {1, 0}, {3, 1}},
      {{2, 3, 4}, {0, 1, 3}, {12, 1, 3}}, {{2, 2, 2}, {0, 0, 0}, {4, 2, 1}},
      {{2, 3}, {4, 1}, {3, 1}},           {{2, 3}, {1, 5}, {1, 2}},
      {{2, 3, 4}, {0, 1, 0}, {12, 4, 1}}, {{2, 3, 4}, {4, 0, 1}, {12, 4, 1}},
      {{3, 2, 4}, {0, 16, 2}, {8, 4, 1}}, {{3, 1, 4}, {1, 0, 3}, {1, 0, 3}},
  };
  const Owned base = empty({1000});
  for (const Case& one : cases) {
    const auto ndim = static_cast<int64_t>(one.sizes.size());
    const Owned view(base->view(ndim, one.sizes.data(), one.strides.data(), 0, kFloat32));
    std::vector<int64_t> found(one.sizes.size());
    dense_strides(*view, found.data());
    BOOST_TEST(found == one.expected, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(many_dims_use_the_heap) {
  const Sizes sizes(9, 2);
  const Owned t = empty(sizes);
  BOOST_TEST(t->numel() == 512);
  const Owned alias(t->alias());
  BOOST_TEST(alias->stride(0) == 256);
  const Owned target(Tensor::undefined());
  BOOST_TEST(!target->defined());
  BOOST_TEST((target->assign(*t) == Status::kOk));
  BOOST_TEST((target->assign(*target) == Status::kOk));
  BOOST_TEST(target->size(8) == 2);
  BOOST_TEST((target->assign(*empty({3})) == Status::kOk));
  BOOST_TEST(target->ndim() == 1);
}

BOOST_AUTO_TEST_CASE(wrong_arguments_have_reasons) {
  const auto reason = [](const Sizes& sizes, const Sizes& strides, int32_t dtype = kFloat32,
                         Device device = {}) {
    clear_failure();
    const Owned t(Tensor::empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(),
                                        strides.data(), dtype, device));
    BOOST_TEST(t.get() == nullptr);
    return std::string(last_failure());
  };
  const int64_t huge = std::numeric_limits<int64_t>::max();
  BOOST_TEST(reason({-1}, {1}) == "size -1 of dim 0 is negative");
  BOOST_TEST(reason({2}, {-1}) == "stride -1 of dim 0 is negative");
  BOOST_TEST(reason({huge, 4}, {4, 1}) == "sizes and strides of a 2-dim tensor exceed 64 bits");
  BOOST_TEST(reason({1}, {1}, 99) == "99 is not the code of a known dtype");
  BOOST_TEST(reason({1}, {1}, kFloat32, {kCuda, 0}) == "no device cuda:0 in this process");
  BOOST_TEST(reason({huge / 8}, {1}).find("out of memory: ") == 0u);
  BOOST_TEST(reason(Sizes(65, 1), Sizes(65, 1)) == "65 dimensions, expected 0 to 64");
  BOOST_TEST(Tensor::empty_strided(1, nullptr, nullptr, kFloat32, Device{}) == nullptr);
  BOOST_TEST(Tensor::borrow(nullptr, 0, nullptr, nullptr, 0, kFloat32, Device{}) == nullptr);
}

BOOST_AUTO_TEST_CASE(contiguous_and_dense) {
  BOOST_TEST(strided({2, 3}, {3, 1})->is_contiguous());
  BOOST_TEST(!strided({2, 3}, {1, 2})->is_contiguous());
  BOOST_TEST(strided({2, 3}, {1, 2})->is_dense());
  BOOST_TEST(!strided({2, 3}, {4, 1})->is_dense());
  BOOST_TEST(!strided({2, 3}, {0, 1})->is_dense());
  BOOST_TEST(strided({1, 3}, {77, 1})->is_contiguous());
  BOOST_TEST(strided({0, 3}, {77, 5})->is_contiguous());
}

BOOST_AUTO_TEST_CASE(copy_moves_every_element_whatever_the_strides) {
  const Sizes sizes{2, 3, 4};
  for (int32_t dtype : {kInt8, kInt16, kFloat32, kInt64, kComplex128}) {
    for (const Sizes& to : {Sizes{12, 4, 1}, Sizes{1, 2, 6}, Sizes{24, 8, 2}}) {
      for (const Sizes& from : {Sizes{12, 4, 1}, Sizes{1, 2, 6}, Sizes{0, 0, 1}, Sizes{4, 16, 1}}) {
        check_copy(sizes, to, from, dtype);
      }
    }
  }
}

// Larger than the squares that are copied at a time, and no multiple of them.
BOOST_AUTO_TEST_CASE(copy_transposes) {
  const Sizes sizes{2, 37, 70};
  const Sizes rows{2590, 70, 1};
  const Sizes columns{2590, 1, 37};
  const Sizes columns_apart{7770, 3, 111};
  for (int32_t dtype : {kInt8, kInt16, kFloat32, kInt64, kComplex128}) {
    check_copy(sizes, rows, columns, dtype);
    check_copy(sizes, columns, rows, dtype);
    check_copy(sizes, columns_apart, rows, dtype);
    check_copy(sizes, rows, columns_apart, dtype);
    check_copy(sizes, {70, 140, 1}, {1, 140, 2}, dtype);
  }
}

BOOST_AUTO_TEST_CASE(copy_converts_dtypes) {
  const Owned src = empty({4}, kFloat64);
  const double values[] = {1.75, -2.5, 0.0, 300.0};
  std::memcpy(src->data(), values, sizeof(values));
  const Owned ints = empty({4}, kInt32);
  BOOST_TEST((strided_copy(*ints, *src) == Status::kOk));
  BOOST_TEST(ints->data_as<int32_t>()[1] == -2);
  const Owned bools = empty({4}, kBool);
  BOOST_TEST((strided_copy(*bools, *src) == Status::kOk));
  BOOST_TEST(bools->data_as<bool>()[0]);
  BOOST_TEST(!bools->data_as<bool>()[2]);
  const Owned halves = empty({4}, kBFloat16);
  BOOST_TEST((strided_copy(*halves, *src) == Status::kOk));
  const Owned back = empty({4}, kFloat32);
  BOOST_TEST((strided_copy(*back, *halves) == Status::kOk));
  BOOST_TEST(back->data_as<float>()[0] == 1.75f);
  BOOST_TEST((strided_copy(*empty({4}, kFloat8E5M2), *src) == Status::kFailed));
  BOOST_TEST((strided_copy(*empty({5}, kFloat64), *src) == Status::kFailed));
}

BOOST_AUTO_TEST_SUITE_END()
