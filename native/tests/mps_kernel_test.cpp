// Kernels as generated code runs them, and as our own do.

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "mps/driver/commands.h"
#include "mps/driver/encode.h"
#include "mps/driver/kernel.h"
#include "mps/driver/shader_library.h"
#include "mps_fixture.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;

namespace {

const char* const kAddSource = R"MTL(
#include <metal_stdlib>
using namespace metal;
kernel void add(device float* out, constant float* a, constant float* b, constant long& n,
                uint i [[thread_position_in_grid]]) {
  out[i] = a[i] + b[0] + static_cast<float>(n);
}
kernel void place(device long* out, uint2 at [[thread_position_in_grid]],
                  uint2 group [[threadgroup_position_in_grid]]) {
  out[at.y * 5 + at.x] = static_cast<long>(group.y * 100 + group.x);
}
)MTL";

/// A library with its kernels, as a program has it.
struct Shader {
  explicit Shader(const char* source) {
    code = aoti_torch_mps_create_shader_library(source, &library);
  }
  ~Shader() { aoti_torch_mps_delete_shader_library(library); }
  AOTIMetalKernelFunctionHandle kernel(const char* name) {
    AOTIMetalKernelFunctionHandle function = nullptr;
    code = aoti_torch_mps_get_kernel_function(library, name, &function);
    return function;
  }
  AOTIMetalShaderLibraryHandle library = nullptr;
  AOTITorchError code = 0;
};

/// out = a + b[0] + n, without waiting.
AOTITorchError add(AOTIMetalKernelFunctionHandle kernel, const Handle& out, const Handle& a,
                   const Handle& b, int64_t n) {
  (void)aoti_torch_mps_start_encoding(kernel);
  (void)aoti_torch_mps_set_arg_tensor(kernel, 0, out.get());
  (void)aoti_torch_mps_set_arg_tensor(kernel, 1, a.get());
  (void)aoti_torch_mps_set_arg_tensor(kernel, 2, b.get());
  (void)aoti_torch_mps_set_arg_int(kernel, 3, n);
  return aoti_torch_mps_dispatch_single(kernel, static_cast<uint64_t>(unwrap(out.get())->numel()));
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mps_kernels, MpsFixture)

BOOST_AUTO_TEST_CASE(arguments_are_tensors_numbers_and_tensors_of_the_cpu) {
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("add");
  BOOST_TEST_REQUIRE(shader.code == 0, reason());
  const Handle base = make_mps({6}, kFloat32);
  set_values<float>(base, {1, 2, 3, 4, 5, 6});
  const int64_t sizes[] = {4};
  const int64_t strides[] = {1};
  AtenTensorHandle view = nullptr;
  BOOST_TEST(aoti_torch__reinterpret_tensor(base.get(), 1, sizes, strides, 2, &view) == 0);
  const Handle a(view);
  const Handle on_mps = make_mps({}, kFloat32);
  set_values<float>(on_mps, {10});
  const Handle on_cpu = make({}, kFloat32);
  *data_of<float>(on_cpu) = 20;
  const Handle first = make_mps({4}, kFloat32);
  const Handle second = make_mps({4}, kFloat32);
  BOOST_TEST(add(kernel, first, a, on_mps, 100) == 0, reason());
  BOOST_TEST(add(kernel, second, first, on_cpu, 0) == 0, reason());
  BOOST_TEST(metal_stand_in_commits() == 0);  // gathered, not waited for
  BOOST_TEST(values_of<float>(second) == (std::vector<float>{133, 134, 135, 136}),
             boost::test_tools::per_element());
  BOOST_TEST(metal_stand_in_commits() == 1);
}

BOOST_AUTO_TEST_CASE(grids_have_up_to_three_dims_and_groups) {
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("place");
  const Handle out = make_mps({3, 5}, kInt64);
  const uint64_t length[] = {5, 3};
  const uint64_t group[] = {2, 2};
  (void)aoti_torch_mps_start_encoding(kernel);
  (void)aoti_torch_mps_set_arg_tensor(kernel, 0, out.get());
  BOOST_TEST(aoti_torch_mps_dispatch_array_with_group_size(kernel, length, 2, group, 2) == 0,
             reason());
  const std::vector<int64_t> wanted = {0, 0, 1, 1, 2, 0, 0, 1, 1, 2, 100, 100, 101, 101, 102};
  BOOST_TEST(values_of<int64_t>(out) == wanted, boost::test_tools::per_element());
  (void)aoti_torch_mps_start_encoding(kernel);
  (void)aoti_torch_mps_set_arg_tensor(kernel, 0, out.get());
  BOOST_TEST(aoti_torch_mps_dispatch_array(kernel, length, 2) == 0, reason());
  BOOST_TEST(values_of<int64_t>(out)[14] == 200);  // groups along the first dim only
}

BOOST_AUTO_TEST_CASE(a_grid_without_elements_does_nothing) {
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("add");
  const Handle none = make_mps({0}, kFloat32);
  const Handle one = make_mps({}, kFloat32);
  BOOST_TEST(add(kernel, none, none, one, 0) == 0, reason());
  const uint64_t length[] = {4, 0, 2};
  BOOST_TEST(aoti_torch_mps_dispatch_array(kernel, length, 3) == 0, reason());
  BOOST_TEST((stream->finish() == Status::kOk));
  BOOST_TEST(metal_stand_in_dispatches() == 0);
}

BOOST_AUTO_TEST_CASE(many_kernels_fill_many_command_buffers_in_order) {
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("add");
  const Handle sum = make_mps({3}, kFloat32);
  const Handle zero = make({}, kFloat32);
  *data_of<float>(zero) = 0;
  set_values<float>(sum, {0, 1, 2});
  const size_t count = mps::Commands::kMaxKernels * (mps::Commands::kMaxInFlight + 2) + 3;
  for (size_t i = 0; i < count; ++i) {
    BOOST_TEST_REQUIRE(add(kernel, sum, sum, zero, 1) == 0, reason());
  }
  BOOST_TEST(values_of<float>(sum)[2] == static_cast<float>(count + 2));
  BOOST_TEST(metal_stand_in_commits() == static_cast<long>(mps::Commands::kMaxInFlight + 3));
}

BOOST_AUTO_TEST_CASE(the_first_fault_stays_and_stops_the_rest) {
  expects_fault = true;
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("add");
  const Handle out = make_mps({4}, kFloat32);
  const Handle on_cpu = make({4096}, kFloat32);
  BOOST_TEST(add(kernel, out, on_cpu, out, 0) != 0);
  BOOST_TEST((stream->check_fault() == Status::kFailed));
  check_reason("argument 1 of a kernel is on cpu, expected mps, or cpu and at most 4096 bytes");
  BOOST_TEST(add(kernel, out, out, out, 0) != 0);
  BOOST_TEST((stream->check_fault() == Status::kFailed));
  check_reason("argument 1 of a kernel");
  const mps::Kernel* own = mps::ShaderLibrary::get(kAddSource)->kernel("add");
  BOOST_TEST_REQUIRE((own != nullptr));
  BOOST_TEST((mps::Launch(own).tensor(*unwrap(out.get())).threads({1}, {1}) == Status::kFailed));
  BOOST_TEST(metal_stand_in_dispatches() == 0);
}

BOOST_AUTO_TEST_CASE(a_group_over_the_limit_is_refused) {
  expects_fault = true;
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("place");
  const Handle out = make_mps({3, 5}, kInt64);
  (void)aoti_torch_mps_start_encoding(kernel);
  (void)aoti_torch_mps_set_arg_tensor(kernel, 0, out.get());
  BOOST_TEST(aoti_torch_mps_dispatch_single_with_group_size(kernel, 4096, 4096) != 0);
  check_reason("kernel 'place' cannot run in groups of 4096 x 1 x 1 threads, this GPU allows it");
}

BOOST_AUTO_TEST_CASE(groups_follow_what_a_pipeline_allows) {
  metal_stand_in_limit_threads(64);
  const std::string text = std::string("// in small groups\n") + kAddSource;
  Shader shader(text.c_str());
  const auto kernel = shader.kernel("add");
  const Handle out = make_mps({1000}, kFloat32);
  const Handle zero = make({}, kFloat32);
  *data_of<float>(zero) = 0;
  set_values(out, std::vector<float>(1000, 1.0f));
  BOOST_TEST(add(kernel, out, out, zero, 2) == 0, reason());
  BOOST_TEST(values_of<float>(out)[999] == 3.0f);
  metal_stand_in_limit_threads(0);
}

BOOST_AUTO_TEST_CASE(a_shader_that_does_not_compile_fails_whenever_it_is_used) {
  expects_fault = true;
  Shader shader("this is no shader");
  BOOST_TEST(shader.code == 0);
  const auto kernel = shader.kernel("add");
  BOOST_TEST(shader.code != 0);
  BOOST_TEST_REQUIRE((kernel != nullptr));
  BOOST_TEST((stream->check_fault() == Status::kFailed));
  check_reason("a shader does not compile: ");
  stream->abandon();  // the next run
  BOOST_TEST(aoti_torch_mps_start_encoding(kernel) != 0);
  BOOST_TEST((stream->check_fault() == Status::kFailed));
  check_reason("a shader does not compile: ");
}

BOOST_AUTO_TEST_CASE(a_kernel_that_failed_once_is_built_by_the_next_run) {
  metal_stand_in_fail_pipeline(1);
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("add");
  BOOST_TEST(shader.code != 0);
  check_reason("the GPU makes no pipeline of kernel 'add'");
  stream->abandon();
  BOOST_TEST(aoti_torch_mps_start_encoding(kernel) == 0, reason());
}

BOOST_AUTO_TEST_CASE(names_that_are_not_there_are_errors) {
  expects_fault = true;
  Shader shader(kAddSource);
  (void)shader.kernel("subtract");
  BOOST_TEST(shader.code != 0);
  check_reason("a shader has no kernel 'subtract'");
  BOOST_TEST(aoti_torch_mps_create_shader_library(nullptr, &shader.library) != 0);
  BOOST_TEST(aoti_torch_mps_run_command_block(nullptr, nullptr, nullptr) != 0);
  BOOST_TEST(aoti_torch_mps_delete_shader_library(nullptr) == 0);
}

BOOST_AUTO_TEST_CASE(a_text_is_compiled_once_and_given_back_with_its_last_user) {
  const std::string text = std::string("// once\n") + kAddSource;
  const long before = metal_stand_in_live_of("MTLLibrary");
  {
    Shader one(text.c_str());
    Shader two(text.c_str());
    (void)one.kernel("add");
    (void)two.kernel("add");
    (void)two.kernel("place");
    BOOST_TEST(metal_stand_in_libraries() == 1);
    BOOST_TEST(metal_stand_in_pipelines() == 2);
    BOOST_TEST(metal_stand_in_live_of("MTLLibrary") == before + 1);
  }
  BOOST_TEST(metal_stand_in_live_of("MTLLibrary") == before);
}

BOOST_AUTO_TEST_CASE(machine_code_is_kept_in_a_folder) {
  char folder[] = "/tmp/aotip_archives.XXXXXX";
  BOOST_TEST_REQUIRE((mkdtemp(folder) != nullptr));
  const std::string text = std::string("// kept\n") + kAddSource;
  const auto builds = [&] {
    Shader shader(text.c_str());
    return shader.kernel("add") != nullptr && shader.code == 0;
  };
  const auto files = [&] {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      found.push_back(entry.path());
    }
    return found;
  };
  setenv("AOTI_PLUGINS_METAL_ARCHIVES", folder, 1);
  BOOST_TEST(builds(), reason());
  BOOST_TEST_REQUIRE(files().size() == 1u);
  BOOST_TEST(files()[0].extension().string() == ".metalar");
  BOOST_TEST(std::filesystem::file_size(files()[0]) > 0u);
  const auto written = std::filesystem::last_write_time(files()[0]);
  BOOST_TEST(builds(), reason());
  BOOST_TEST((std::filesystem::last_write_time(files()[0]) == written));
  // Neither a damaged archive nor a missing folder is more than a loss of time.
  std::ofstream(files()[0]) << "damaged";
  BOOST_TEST(builds(), reason());
  std::filesystem::remove_all(folder);
  BOOST_TEST(builds(), reason());
  unsetenv("AOTI_PLUGINS_METAL_ARCHIVES");
  BOOST_TEST(!std::filesystem::exists(folder));
}

BOOST_AUTO_TEST_CASE(what_the_gpu_reports_fails_the_wait) {
  expects_fault = true;
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("add");
  const Handle out = make_mps({4}, kFloat32);
  set_values<float>(out, {1, 2, 3, 4});
  metal_stand_in_fail_command_buffer(1);
  BOOST_TEST(add(kernel, out, out, out, 0) == 0, reason());
  BOOST_TEST((stream->finish() == Status::kFailed));
  check_reason("the GPU stopped with an error: ");
  BOOST_TEST(!stream->commands().pending());
}

BOOST_AUTO_TEST_CASE(without_a_program_there_is_nothing_to_encode_into) {
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("add");
  std::thread([&] {
    BOOST_TEST(aoti_torch_mps_start_encoding(kernel) != 0);
    check_reason("no program runs on this thread");
    BOOST_TEST(aoti_torch_mps_dispatch_single(kernel, 4) != 0);
  }).join();
}

BOOST_AUTO_TEST_CASE(our_own_kernels_are_found_once) {
  const mps::MetalSource source = {
      "twice",
      "kernel void twice(device T* x, constant long& n, uint i [[thread_position_in_grid]]) {\n"
      "  x[i] = x[i] * T(n);\n}\n"};
  const mps::Kernel* kernel = mps::find_kernel(source, "twice", "#define T float\n");
  BOOST_TEST_REQUIRE((kernel != nullptr), last_failure());
  BOOST_TEST((mps::find_kernel(source, "twice", "#define T float\n") == kernel));
  const mps::Kernel* other = mps::find_kernel(source, "twice", "#define T int\n");
  BOOST_TEST((other != nullptr && other != kernel));
  BOOST_TEST(mps::max_threads(*kernel) >= 32u);
  const Handle x = make_mps({70}, kFloat32);
  set_values(x, std::vector<float>(70, 4.0f));
  const Tensor& tensor = *unwrap(x.get());
  const int64_t factor = 3;
  BOOST_TEST((mps::Launch(kernel).tensor(tensor).value(factor).threads({70}, {32}) == Status::kOk),
             last_failure());
  BOOST_TEST((mps::Launch(kernel).memory(tensor.data(), 64 * 4).value(factor).groups({2}, {32}) ==
              Status::kOk),
             last_failure());
  BOOST_TEST(values_of<float>(x)[63] == 36.0f);
  BOOST_TEST(values_of<float>(x)[64] == 12.0f);
  BOOST_TEST((mps::find_kernel(source, "thrice", "#define T float\n") == nullptr));
  check_reason("twice.metal: a shader has no kernel 'thrice'");
  BOOST_TEST((mps::Launch(nullptr).threads({1}, {1}) == Status::kFailed));
}

BOOST_AUTO_TEST_CASE(threads_share_kernels_but_not_what_they_run) {
  Shader shader(kAddSource);
  const auto kernel = shader.kernel("add");
  std::atomic<int> right{0};
  const auto work = [&](int64_t n) {
    const auto own = mps::Stream::create();
    const mps::StreamScope inner(*own);
    for (int i = 0; i < 30; ++i) {
      const Handle x = make_mps({64}, kFloat32);
      const Handle zero = make({}, kFloat32);
      *data_of<float>(zero) = 0;
      set_values(x, std::vector<float>(64, 1.0f));
      for (int k = 0; k < 5; ++k) {
        (void)add(kernel, x, x, zero, n);
      }
      right += values_of<float>(x) == std::vector<float>(64, 1.0f + 5.0f * static_cast<float>(n));
    }
  };
  std::thread thread([&] { work(1); });
  work(7);
  thread.join();
  BOOST_TEST(right == 60);
}

BOOST_AUTO_TEST_SUITE_END()
