// What the matrix products' shims refuse, with which reason; nothing is written then.

#include "matmul_numbers.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

BOOST_FIXTURE_TEST_SUITE(cuda_matmul_refusals, CudaFixture)

BOOST_AUTO_TEST_CASE(wrong_arguments_leave_the_result_untouched) {
  Handle a = on_gpu({3, 5}, {5, 1}, kFloat32, numbers<float>(15, 1));
  Handle b = on_gpu({5, 4}, {4, 1}, kFloat32, numbers<float>(20, 2));
  const auto old = numbers<float>(12, 3);
  Handle out = on_gpu({3, 4}, {4, 1}, kFloat32, old);
  Handle host = make({5, 4}, kFloat32);
  Handle doubles = make_on(kCuda, {5, 4}, {4, 1}, kFloat64);
  Handle cube = make_on(kCuda, {1, 5, 4}, {20, 4, 1}, kFloat32);
  Handle wide = make_on(kCuda, {3, 5}, {5, 1}, kFloat32);
  Handle bools = make_on(kCuda, {3, 3}, {3, 1}, kBool);
  check_refused(aoti_torch_cuda_mm_out(nullptr, a.get(), b.get()), "out is null");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), nullptr), "second matrix is null");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), host.get()), "on cpu, expected cuda");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), doubles.get()),
                "the second matrix is float64, expected float32 as the result");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), cube.get()), "has 3 dims, expected 2");
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), a.get()), "inner sizes differ");
  check_refused(aoti_torch_cuda_mm_out(wide.get(), a.get(), b.get()), "the result is [3, 5]");
  check_refused(aoti_torch_cuda_mm_out(bools.get(), bools.get(), bools.get()),
                "no matrix product for bool");
  check_refused(aoti_torch_cuda_addmm_out(out.get(), wide.get(), a.get(), b.get(), 1.0, 1.0),
                "does not broadcast");
  check_refused(aoti_torch_cuda_addmm_out(out.get(), nullptr, a.get(), b.get(), 1.0, 1.0),
                "self is null");
  check_refused(aoti_torch_cuda__int_mm_out(out.get(), a.get(), b.get()),
                "expected int8 and int32");
  BOOST_TEST((read<float>(out) == old));
}

BOOST_AUTO_TEST_CASE(matrices_of_two_gpus_are_refused, *boost::unit_test::label(kTwoGpus)) {
  Handle a = on_gpu({3, 5}, {5, 1}, kFloat32, numbers<float>(15, 1));
  Handle b = make_on(kCuda, {5, 4}, {4, 1}, kFloat32, 1);
  const auto old = numbers<float>(12, 3);
  Handle out = on_gpu({3, 4}, {4, 1}, kFloat32, old);
  check_refused(aoti_torch_cuda_mm_out(out.get(), a.get(), b.get()), "cuda:1, expected cuda:0");
  BOOST_TEST((read<float>(out) == old));
}

BOOST_AUTO_TEST_CASE(wrong_batches_leave_the_result_untouched) {
  const Handle a = empty_on_gpu({2, 3, 5});
  const Handle b = empty_on_gpu({2, 5, 4});
  const Handle bools = empty_on_gpu({2, 3, 3}, kBool);
  const Handle one = empty_on_gpu({1});
  const auto old = numbers<float>(24, 3);
  const Handle out = on_gpu({2, 3, 4}, {12, 4, 1}, kFloat32, old);
  const auto refused = [&](const Handle& o, const Handle& x, const Handle& y, const char* part) {
    check_refused(aoti_torch_cuda_bmm_out(o.get(), x.get(), y.get()), part);
    check_refused(aoti_torch_cuda_baddbmm_out(o.get(), one.get(), x.get(), y.get(), 1, 1), part);
  };
  const Handle nothing;
  refused(nothing, a, b, "out is null");
  refused(out, a, nothing, "second matrix is null");
  refused(out, a, make({2, 5, 4}, kFloat32), "second matrix is on cpu, expected cuda");
  refused(out, a, empty_on_gpu({2, 5, 4}, kFloat64), "the second matrix is float64");
  refused(empty_on_gpu({2, 3, 4}, kFloat64), a, b, "float32, expected float64 as the result");
  check_refused(aoti_torch_cuda_bmm_out(bools.get(), bools.get(), bools.get()),
                "no matrix product for bool");
  refused(empty_on_gpu({6, 4}), a, b, "out has 2 dims, expected 3");
  refused(out, empty_on_gpu({3, 5}), b, "first matrix has 2 dims, expected 3");
  refused(out, a, a, "inner sizes differ");
  refused(empty_on_gpu({2, 3, 5}), a, b, "the result is [3, 5], expected [3, 4]");
  refused(out, a, empty_on_gpu({1, 5, 4}), "batch sizes differ: 2 and 1, result 2");
  refused(empty_on_gpu({3, 3, 4}), a, b, "batch sizes differ: 2 and 2, result 3");
  BOOST_TEST((read<float>(out) == old));
}

BOOST_AUTO_TEST_CASE(what_cannot_be_added_leaves_the_result_untouched) {
  const Handle a = empty_on_gpu({2, 3, 5});
  const Handle b = empty_on_gpu({2, 5, 4});
  const auto old = numbers<float>(24, 3);
  const Handle out = on_gpu({2, 3, 4}, {12, 4, 1}, kFloat32, old);
  const auto refused = [&](const Handle& self, const char* part) {
    check_refused(aoti_torch_cuda_baddbmm_out(out.get(), self.get(), a.get(), b.get(), 1, 1), part);
  };
  refused(nullptr, "self is null");
  refused(make({4}, kFloat32), "self is on cpu, expected cuda");
  refused(empty_on_gpu({4}, kFloat64), "self is float64, expected float32");
  refused(empty_on_gpu({1, 2, 3, 4}), "self has 4 dims");
  refused(empty_on_gpu({5}), "size 5 of dim 0 of self does not broadcast to 4");
  refused(empty_on_gpu({3, 3, 4}), "size 3 of dim 0 of self does not broadcast to 2");
  BOOST_TEST((read<float>(out) == old));
}

BOOST_AUTO_TEST_CASE(wrong_activations_give_no_result) {
  const Handle a = empty_on_gpu({3, 5});
  const Handle b = empty_on_gpu({5, 4});
  const Handle bools = empty_on_gpu({3, 3}, kBool);
  const auto old = numbers<float>(4, 3);
  const Handle bias = on_gpu({4}, {1}, kFloat32, old);
  const auto refused = [](const Handle& self, const Handle& x, const Handle& y, const char* part) {
    AtenTensorHandle raw = nullptr;
    check_refused(aoti_torch_cuda__addmm_activation(self.get(), x.get(), y.get(), 1, 1, 1, &raw),
                  part);
    BOOST_TEST(raw == nullptr);
  };
  const Handle nothing;
  refused(nothing, a, b, "self is null");
  refused(bias, nothing, b, "mat1 is null");
  refused(bias, a, nothing, "mat2 is null");
  refused(bias, a, make({5, 4}, kFloat32), "second matrix is on cpu, expected cuda");
  refused(make({4}, kFloat32), a, b, "self is on cpu, expected cuda");
  refused(bias, a, empty_on_gpu({5, 4}, kFloat64), "the second float64");
  refused(bools, bools, bools, "no matrix product for bool");
  refused(empty_on_gpu({4}, kFloat64), a, b, "self is float64, expected float32");
  refused(bias, empty_on_gpu({1, 3, 5}), b, "matrices of 3 and 2 dims, expected 2");
  refused(bias, a, empty_on_gpu({4, 4}), "inner sizes differ");
  refused(empty_on_gpu({1, 3, 4}), a, b, "self has 3 dims");
  refused(empty_on_gpu({5}), a, b, "size 5 of dim 0 of self does not broadcast to 4");
  check_refused(aoti_torch_cuda__addmm_activation(bias.get(), a.get(), b.get(), 1, 1, 0, nullptr),
                "ret0 is null");
  BOOST_TEST((read<float>(bias) == old));
}

BOOST_AUTO_TEST_CASE(wrong_products_of_int8_leave_the_result_untouched) {
  const Handle a = empty_on_gpu({4, 8}, kInt8);
  const Handle b = empty_on_gpu({8, 16}, kInt8);
  const auto old = numbers<int32_t>(64, 3);
  const Handle out = on_gpu({4, 16}, {16, 1}, kInt32, old);
  const auto refused = [](const Handle& o, const Handle& x, const Handle& y, const char* part) {
    check_refused(aoti_torch_cuda__int_mm_out(o.get(), x.get(), y.get()), part);
  };
  const Handle nothing;
  refused(nothing, a, b, "out is null");
  refused(out, nothing, b, "self is null");
  refused(out, a, nothing, "second matrix is null");
  refused(out, a, make({8, 16}, kInt8), "second matrix is on cpu, expected cuda");
  refused(out, empty_on_gpu({4, 8}, kUInt8), b, "uint8 matrices and a result of int32");
  refused(out, a, empty_on_gpu({8, 16}, kFloat32), "the second float32");
  refused(empty_on_gpu({4, 16}, kInt8), a, b,
          "int8 matrices and a result of int8, expected int8 and int32");
  refused(empty_on_gpu({1, 4, 16}, kInt32), a, b, "out has 3 dims, expected 2");
  refused(out, empty_on_gpu({8}, kInt8), b, "first matrix has 1 dims, expected 2");
  refused(out, b, a, "inner sizes differ");
  refused(empty_on_gpu({4, 8}, kInt32), a, b, "the result is [4, 8], expected [4, 16]");
  BOOST_TEST((read<int32_t>(out) == old));
}

BOOST_AUTO_TEST_CASE(a_result_that_lies_over_itself_is_refused) {
  const auto old = numbers<float>(24, 3);
  const Handle memory = on_gpu({24}, {1}, kFloat32, old);
  const Handle a = on_gpu({2, 3, 5}, {15, 5, 1}, kFloat32, numbers<float>(30, 1));
  const Handle b = on_gpu({2, 5, 4}, {20, 4, 1}, kFloat32, numbers<float>(40, 2));
  const Handle first = seen_as(a, {3, 5}, {5, 1});
  const Handle second = seen_as(b, {5, 4}, {4, 1});
  const Handle bias = on_gpu({4}, {1}, kFloat32, numbers<float>(4, 5));
  const std::pair<Ints, const char*> matrices[] = {
      {{0, 1}, "out has 3 elements at each address along dim 0"},
      {{1, 0}, "out has 4 elements at each address along dim 1"}};
  for (const auto& [strides, part] : matrices) {
    const Handle out = seen_as(memory, {3, 4}, strides);
    check_refused(aoti_torch_cuda_mm_out(out.get(), first.get(), second.get()), part);
    check_refused(aoti_torch_cuda_addmm_out(out.get(), bias.get(), first.get(), second.get(), 1, 1),
                  part);
  }
  const std::pair<Ints, const char*> batches[] = {{{0, 4, 1}, "2 elements at each address"},
                                                  {{12, 0, 1}, "3 elements at each address"},
                                                  {{12, 1, 0}, "4 elements at each address"}};
  for (const auto& [strides, part] : batches) {
    const Handle out = seen_as(memory, {2, 3, 4}, strides);
    check_refused(aoti_torch_cuda_bmm_out(out.get(), a.get(), b.get()), part);
    check_refused(aoti_torch_cuda_baddbmm_out(out.get(), bias.get(), a.get(), b.get(), 1, 1), part);
  }
  BOOST_TEST((read<float>(memory) == old));
}

BOOST_AUTO_TEST_CASE(a_result_of_int8_that_lies_over_itself_is_refused) {
  const auto old = numbers<int32_t>(16, 3);
  const Handle memory = on_gpu({16}, {1}, kInt32, old);
  const Handle a = make_on(kCuda, {4, 16}, {16, 1}, kInt8);
  const Handle b = make_on(kCuda, {16, 16}, {1, 16}, kInt8);
  const Handle out = seen_as(memory, {4, 16}, {0, 1});
  check_refused(aoti_torch_cuda__int_mm_out(out.get(), a.get(), b.get()), "4 elements at each");
  BOOST_TEST((read<int32_t>(memory) == old));
}

BOOST_AUTO_TEST_CASE(a_stride_of_zero_does_no_harm_where_there_is_one_element_or_none) {
  const auto a = numbers<float>(5, 1);
  const auto b = numbers<float>(20, 2);
  const Handle first = on_gpu({1, 5}, {5, 1}, kFloat32, a);
  const Handle second = on_gpu({5, 4}, {4, 1}, kFloat32, b);
  const Handle out = make_on(kCuda, {1, 4}, {0, 1}, kFloat32);
  BOOST_TEST(aoti_torch_cuda_mm_out(out.get(), first.get(), second.get()) == 0, reason());
  BOOST_TEST((read<float>(out) == expected<float>(1, 1, 4, 5, a, b)));
  const Handle no_rows = make_on(kCuda, {0, 5}, {5, 1}, kFloat32);
  const Handle empty = make_on(kCuda, {0, 4}, {1, 0}, kFloat32);
  BOOST_TEST(aoti_torch_cuda_mm_out(empty.get(), no_rows.get(), second.get()) == 0, reason());
}

BOOST_AUTO_TEST_CASE(a_product_without_a_kernel_leaves_the_result_untouched) {
  Handle a = on_gpu({3, 3}, {3, 1}, kInt8, numbers<int8_t>(9, 1));
  Handle out = on_gpu({3, 3}, {3, 1}, kInt32, numbers<int32_t>(9, 2));
  check_refused(aoti_torch_cuda__int_mm_out(out.get(), a.get(), a.get()), "has no kernel for");
  BOOST_TEST((read<int32_t>(out) == numbers<int32_t>(9, 2)));
}

BOOST_AUTO_TEST_SUITE_END()
