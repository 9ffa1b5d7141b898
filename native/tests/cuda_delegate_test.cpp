// AotiCudaBackend as the runtime sees it.

#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <atomic>
#include <cstring>
#include <iterator>
#include <thread>

#include "cuda_delegate_fixture.h"
#include "fake_cuda/cublaslt_control.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using ::executorch::extension::make_tensor_ptr;
using ::executorch::extension::TensorPtr;

namespace {

/// A call whose input, ones, and whose result are on the stand-in GPU.
struct DeviceCall {
  DeviceCall() {
    const std::vector<float> ones(6, 1.0f);
    BOOST_TEST((x.allocator->copy_host_to_device(x.data, ones.data(), 24, 0) == Error::Ok));
  }
  Error run(const Loaded& loaded) {
    EValue input(*x_tensor);
    EValue output(*y_tensor);
    return loaded.run(input, output);
  }
  std::vector<float> result() const {
    std::vector<float> found(6);
    BOOST_TEST((y.allocator->copy_device_to_host(found.data(), y.data, 24, 0) == Error::Ok));
    return found;
  }
  DeviceMemory x{24};
  DeviceMemory y{24};
  TensorPtr x_tensor = ::executorch::extension::from_blob(x.data, {2, 3});
  TensorPtr y_tensor = ::executorch::extension::from_blob(y.data, {2, 3});
};

void use_own_streams(bool wanted) {
  BackendOptions<1> options;
  BOOST_TEST((options.set_option("own_streams", wanted) == Error::Ok));
  BOOST_TEST((set_option("AotiCudaBackend", options.view()) == Error::Ok), reason());
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(cuda_delegate, Clean)

BOOST_AUTO_TEST_CASE(is_registered_and_available) {
  BOOST_TEST_REQUIRE(backend() != nullptr);
  BOOST_TEST(backend()->is_available());
}

BOOST_AUTO_TEST_CASE(runs_on_host_memory_and_keeps_state) {
  const Program program;
  const Loaded loaded(program);
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  for (int32_t round = 0; round < 4; ++round) {
    const int32_t rows = round == 2 ? 5 : 2;
    Call call(rows);
    BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
    BOOST_TEST(call.y->size(0) == rows);
    BOOST_TEST(call.result() == expected(rows, static_cast<float>(round)));
  }
}

BOOST_AUTO_TEST_CASE(later_calls_ask_the_driver_for_no_memory) {
  const Program program;
  const Loaded loaded(program);
  Call call;
  BOOST_TEST((call.run(loaded) == Error::Ok));
  BOOST_TEST((call.run(loaded) == Error::Ok));
  const size_t device = fake().calls("cuMemAllocFromPoolAsync") + fake().calls("cuMemAlloc_v2");
  const size_t host = fake().calls("cuMemHostAlloc");
  for (int i = 0; i < 5; ++i) {
    BOOST_TEST((call.run(loaded) == Error::Ok));
  }
  BOOST_TEST(fake().calls("cuMemAllocFromPoolAsync") + fake().calls("cuMemAlloc_v2") == device);
  BOOST_TEST(fake().calls("cuMemHostAlloc") == host);
  BOOST_TEST(fake().calls("cuModuleLoadData") == 1u);
}

BOOST_AUTO_TEST_CASE(device_memory_is_used_in_place_and_not_waited_for) {
  const Program program;
  const Loaded loaded(program);
  DeviceCall call;
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  const size_t waits = fake().calls("cuStreamSynchronize");
  const size_t up = fake().calls("cuMemcpyHtoDAsync_v2");
  const size_t down = fake().calls("cuMemcpyDtoHAsync_v2");
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(fake().calls("cuStreamSynchronize") == waits);
  BOOST_TEST(fake().calls("cuMemcpyHtoDAsync_v2") == up);
  BOOST_TEST(fake().calls("cuMemcpyDtoHAsync_v2") == down);
  BOOST_TEST(call.result() == expected(2, 1));
}

BOOST_AUTO_TEST_CASE(device_memory_is_worked_on_in_the_default_stream) {
  const Program program;
  const Loaded loaded(program);
  DeviceCall call;
  // Only work on the default stream is done at once there.
  size_t done = fake().launches();
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(fake().launches() > done);
  use_own_streams(true);
  done = fake().launches();
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(fake().launches() == done);
  use_own_streams(false);
  Call on_host;
  BOOST_TEST((on_host.run(loaded) == Error::Ok), reason());
  BOOST_TEST(on_host.result() == expected(2, 2));
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 3));
}

/// The stand-in puts work on a stream off until somebody waits for it: without an order between
/// the streams, one method would not see what the other has not written yet.
BOOST_AUTO_TEST_CASE(methods_of_a_program_share_their_state_in_the_order_of_calls) {
  const Program program;
  const Loaded prefill(program, "", {}, "prefill");
  auto decode = std::make_unique<Loaded>(program, "", Span<BackendOption>{}, "decode");
  const Loaded other(program, "", {}, "prefill");
  for (float calls = 0; calls < 8; calls += 4) {
    use_own_streams(calls == 0);
    DeviceCall first;
    BOOST_TEST_REQUIRE((first.run(prefill) == Error::Ok), reason());
    Call second;
    BOOST_TEST_REQUIRE((second.run(*decode) == Error::Ok), reason());
    BOOST_TEST(second.result() == expected(2, calls + 1));
    DeviceCall third;
    BOOST_TEST_REQUIRE((third.run(*decode) == Error::Ok), reason());
    DeviceCall fourth;
    BOOST_TEST_REQUIRE((fourth.run(prefill) == Error::Ok), reason());
    BOOST_TEST(fourth.result() == expected(2, calls + 3));
    BOOST_TEST(third.result() == expected(2, calls + 2));
    BOOST_TEST(first.result() == expected(2, calls));
  }
  use_own_streams(true);
  DeviceCall last;
  BOOST_TEST_REQUIRE((last.run(*decode) == Error::Ok), reason());
  decode.reset();
  Call after;
  BOOST_TEST_REQUIRE((after.run(prefill) == Error::Ok), reason());
  BOOST_TEST(after.result() == expected(2, 9));
  Call apart;
  BOOST_TEST_REQUIRE((apart.run(other) == Error::Ok), reason());
  BOOST_TEST(apart.result() == expected(2, 0));
  use_own_streams(false);
}

BOOST_AUTO_TEST_CASE(methods_of_a_program_share_no_state_across_gpus) {
  const Program program;
  const Loaded prefill(program, "", {}, "prefill");
  BOOST_TEST(!Loaded(program, "cuda:1", {}, "decode").ok());
  check_reason("buffer 'calls' is on cuda:1, and on cuda:0 in a method that it shares");
}

BOOST_AUTO_TEST_CASE(results_are_computed_where_the_program_wants_them) {
  const Program program;
  const Loaded loaded(program);
  const DeviceMemory x(60);
  const DeviceMemory y(60);
  const auto run = [&](int32_t rows, void* to, float calls) {
    return run_on_gpu(loaded, rows, x.data, to, calls);
  };
  BOOST_TEST(run(2, y.data, 0) == 1u);  // the first run tells which allocation the result is
  BOOST_TEST(run(2, y.data, 1) == 0u);
  BOOST_TEST(run(5, y.data, 2) == 1u);  // another size, another first run
  BOOST_TEST(run(5, y.data, 3) == 0u);
  BOOST_TEST(run(5, x.data, 4) == 1u);  // where the input is read
  BOOST_TEST(run(5, y.data, 5) == 0u);
}

BOOST_AUTO_TEST_CASE(host_inputs_and_device_outputs_may_follow_each_other_at_once) {
  const Program program;
  const Loaded loaded(program);
  const DeviceMemory y(24);
  auto y_tensor = ::executorch::extension::from_blob(y.data, {2, 3});
  for (int i = 0; i < 4; ++i) {
    auto x = make_tensor_ptr({2, 3}, std::vector<float>(6, static_cast<float>(i)));
    EValue args[] = {EValue(*x), EValue(*y_tensor)};
    BOOST_TEST((loaded.run(args[0], args[1]) == Error::Ok), reason());
    std::memset(x->mutable_data_ptr(), 0, 24);  // the caller's again
  }
  std::vector<float> result(6);
  BOOST_TEST((y.allocator->copy_device_to_host(result.data(), y.data, 24, 0) == Error::Ok));
  BOOST_TEST((result == std::vector<float>{6, 9, 12, 6, 9, 12}));
}

BOOST_AUTO_TEST_CASE(large_values_need_no_staging) {
  Program program;
  const int32_t rows = 400000;
  program.payload.inputs[0].dims[0].max = rows;
  program.payload.outputs[0].dims[0].max = rows;
  const Loaded loaded(program);
  auto x = make_tensor_ptr({rows, 3}, std::vector<float>(static_cast<size_t>(rows) * 3, 1.0f));
  auto y = make_tensor_ptr({rows, 3}, std::vector<float>(static_cast<size_t>(rows) * 3, 0.0f));
  EValue args[] = {EValue(*x), EValue(*y)};
  BOOST_TEST((loaded.run(args[0], args[1]) == Error::Ok), reason());
  BOOST_TEST(y->const_data_ptr<float>()[rows * 3 - 1] == 3.0f);
}

// The memory that a small call's input went through has no room for the next one's.
BOOST_AUTO_TEST_CASE(inputs_that_grow_are_copied) {
  Program program;
  const int32_t rows = 20000;
  program.payload.inputs[0].dims[0].max = rows;
  program.payload.outputs[0].dims[0].max = rows;
  const Loaded loaded(program);
  Call first(2);
  BOOST_TEST_REQUIRE((first.run(loaded) == Error::Ok), reason());
  for (int32_t call = 1; call < 3; ++call) {
    auto x = make_tensor_ptr({rows, 3}, std::vector<float>(static_cast<size_t>(rows) * 3, 1.0f));
    auto y = make_tensor_ptr({rows, 3}, std::vector<float>(static_cast<size_t>(rows) * 3, 0.0f));
    EValue args[] = {EValue(*x), EValue(*y)};
    BOOST_TEST_REQUIRE((loaded.run(args[0], args[1]) == Error::Ok), reason());
    BOOST_TEST(y->const_data_ptr<float>()[rows * 3 - 1] == 3.0f + static_cast<float>(call));
  }
}

BOOST_AUTO_TEST_CASE(empty_inputs) {
  const Program program;
  const Loaded loaded(program);
  Call call(0);
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(call.y->size(0) == 0);
}

BOOST_AUTO_TEST_CASE(equal_weights_are_on_the_device_once) {
  const std::string digest(64, 'a');
  const Program first("ok", digest + "_weights_blob");
  const Program second("ok", digest + "_weights_blob");  // another load of the same program
  const size_t before = fake().device_nbytes();
  size_t one = 0;
  {
    const Loaded a(first);
    one = fake().device_nbytes() - before;
    const Loaded b(first);
    const Loaded c(second);
    BOOST_TEST(second.data.gets(digest + "_weights_blob") == 0u);
    BOOST_TEST(fake().device_nbytes() - before == one + 2 * 8);  // and a state for each
    Call call;
    BOOST_TEST((call.run(c) == Error::Ok), reason());
    BOOST_TEST(call.result() == expected(2, 0));
  }
  BOOST_TEST(fake().device_nbytes() == before);
}

BOOST_AUTO_TEST_CASE(names_that_say_nothing_about_the_bytes_are_not_shared) {
  const Program first("ok", "weights", 1.0f);
  const Program second("ok", "weights", 5.0f);
  const Loaded a(first);
  const Loaded b(second);
  Call call;
  BOOST_TEST((call.run(b) == Error::Ok), reason());
  BOOST_TEST(call.result()[0] == 5.0f);
}

BOOST_AUTO_TEST_CASE(the_host_copy_of_the_weights_is_not_kept) {
  const Program program;
  const Loaded loaded(program);
  BOOST_TEST(program.data.open_buffers() == 0u);
}

BOOST_AUTO_TEST_CASE(target_device_is_honoured) {
  const Program program;
  const Loaded loaded(program, "cuda:1");
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  Call call;
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 0));
  BOOST_TEST(!Loaded(program, "cuda:5").ok());
  check_reason("there is no GPU cuda:5, this machine has 2");
  BOOST_TEST(!Loaded(program, "cuda:x").ok());
  check_reason("compile spec target_device is 'cuda:x'");
}

BOOST_AUTO_TEST_CASE(memory_of_another_gpu_is_refused) {
  const Program program;
  const Loaded loaded(program, "cuda:1");
  const DeviceMemory here(24, 1);
  const DeviceMemory other(24, 0);
  const auto run = [&](void* x, void* y) {
    auto x_tensor = ::executorch::extension::from_blob(x, {2, 3});
    auto y_tensor = ::executorch::extension::from_blob(y, {2, 3});
    EValue args[] = {EValue(*x_tensor), EValue(*y_tensor)};
    return loaded.run(args[0], args[1]);
  };
  const DeviceMemory result(24, 1);
  for (int i = 0; i < 2; ++i) {
    BOOST_TEST((run(here.data, result.data) == Error::Ok), reason());
    BOOST_TEST((run(other.data, result.data) != Error::Ok));
    check_reason("input 0: it is on cuda:0, expected cuda:1");
    BOOST_TEST((run(here.data, other.data) != Error::Ok));
    check_reason("it is on cuda:0, expected cuda:1");
  }
}

BOOST_AUTO_TEST_CASE(programs_for_others_are_refused) {
  Program cpu;
  cpu.payload.device = "cpu";
  BOOST_TEST(!Loaded(cpu).ok());
  check_reason("the payload is for device 'cpu', this delegate runs 'cuda'");
  Program other;
  other.payload.targets[0].features = {"sm_80"};
  BOOST_TEST(!Loaded(other).ok());
  check_reason("no code for GPU cuda:0");
  check_reason("Fake GPU (sm_90");
}

BOOST_AUTO_TEST_CASE(kernels_that_do_not_load_are_explained) {
  for (const auto& [model, part] : {std::pair("bad_kernel", "the kernel was compiled for sm_80"),
                                    std::pair("no_kernel", "cuModuleGetFunction failed")}) {
    const Program program(model);
    const Loaded loaded(program);
    BOOST_TEST_REQUIRE(loaded.ok(), reason());
    Call call;
    BOOST_TEST((call.run(loaded) != Error::Ok));
    check_reason(part);
    BOOST_TEST((call.run(loaded) != Error::Ok));
  }
}

BOOST_AUTO_TEST_CASE(every_driver_failure_is_an_error) {
  for (const char* function : {"cuStreamCreate", "cuEventCreate", "cuMemAlloc_v2", "cuMemcpy",
                               "cuModuleLoadData", "cuMemHostAlloc", "cuMemAllocFromPoolAsync",
                               "cuMemcpyHtoDAsync_v2", "cuLaunchKernel", "cuMemcpyDtoHAsync_v2"}) {
    const Program program;
    bool failed = false;
    fake().fail(function, 1, 700);
    {
      const Loaded loaded(program);
      Call call;
      failed = !loaded.ok() || call.run(loaded) != Error::Ok;
      if (loaded.ok() && failed) {
        fake().fail(function, -1, 0);
        BOOST_TEST((call.run(loaded) == Error::Ok), function << ": " << reason());
      }
    }
    // An allocation is tried again with more memory free.
    BOOST_TEST((failed || std::string(function) == "cuMemAllocFromPoolAsync"), function);
    BOOST_TEST(std::string(fake().misuse()) == "", function);
    fake().reset();
  }
}

BOOST_AUTO_TEST_CASE(out_of_memory_while_loading) {
  const Program program;
  fake().set_memory(fake().device_nbytes());
  BOOST_TEST(!Loaded(program).ok());
  check_reason("out of memory: the weights 'state'");  // what is written to comes first
  fake().set_memory(1 << 30);
  const Loaded loaded(program);
  BOOST_TEST(loaded.ok(), reason());
}

BOOST_AUTO_TEST_CASE(many_loads_leave_nothing) {
  const Program program;
  for (int i = 0; i < 30; ++i) {
    const Loaded loaded(program);
    Call call;
    BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  }
}

BOOST_AUTO_TEST_CASE(modules_that_a_model_leaves_are_unloaded) {
  const Program program("leaks_module");
  const size_t before = fake().live_objects();
  {
    const Loaded loaded(program);
    Call call;
    BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  }
  BOOST_TEST(fake().live_objects() == before);
}

BOOST_AUTO_TEST_CASE(libraries_are_opened_while_weights_are_read) {
  const Program without;
  Program with;
  auto& symbols = with.payload.targets[0].symbols;
  symbols.insert(std::next(symbols.begin()), "aoti_torch_cuda_mm_out");  // they are sorted
  {
    BOOST_TEST(Loaded(without).ok(), reason());
  }
  BOOST_TEST(fake_cublaslt().handles() == 0u);
  for (int i = 0; i < 2; ++i) {
    {
      BOOST_TEST(Loaded(with).ok(), reason());
    }
    BOOST_TEST(fake_cublaslt().handles() == 1u);  // of the first load; no call was made
  }
}

BOOST_AUTO_TEST_CASE(options_are_listed_set_and_checked) {
  BackendOption listed[6];
  BOOST_TEST((get_option("AotiCudaBackend", {listed, 6}) == Error::Ok), reason());
  BOOST_TEST(std::string(listed[0].key) == "memory_limit_mib");
  BOOST_TEST(std::get<int>(listed[0].value) == 0);
  BOOST_TEST(std::string(listed[1].key) == "allow_tf32");
  BOOST_TEST(!std::get<bool>(listed[1].value));
  BOOST_TEST(std::string(listed[2].key) == "cuda_graphs");
  BOOST_TEST(std::get<int>(listed[2].value) == 1);
  BOOST_TEST(std::string(listed[3].key) == "seed");
  BOOST_TEST(std::string(listed[4].key) == "own_streams");
  BOOST_TEST(!std::get<bool>(listed[4].value));
  BOOST_TEST(std::string(listed[5].key) == "");

  BackendOptions<2> wanted;
  BOOST_TEST((wanted.set_option("allow_tf32", true) == Error::Ok));
  BOOST_TEST((wanted.set_option("memory_limit_mib", 1) == Error::Ok));
  BOOST_TEST((set_option("AotiCudaBackend", wanted.view()) == Error::Ok), reason());
  BOOST_TEST((get_option("AotiCudaBackend", {listed, 2}) == Error::Ok));
  BOOST_TEST(std::get<int>(listed[0].value) == 1);
  BOOST_TEST(std::get<bool>(listed[1].value));
  {
    Program program;
    program.payload.inputs[0].dims[0].max = 400000;
    program.payload.outputs[0].dims[0].max = 400000;
    const Loaded loaded(program);
    auto x = make_tensor_ptr({400000, 3}, std::vector<float>(1200000, 1.0f));
    auto y = make_tensor_ptr({400000, 3}, std::vector<float>(1200000, 0.0f));
    EValue args[] = {EValue(*x), EValue(*y)};
    BOOST_TEST((loaded.run(args[0], args[1]) != Error::Ok));
    check_reason("exceed the limit of 1048576 bytes");
  }

  const auto refuse = [&](auto options, const std::string& part) {
    BOOST_TEST((set_option("AotiCudaBackend", options.view()) == Error::InvalidArgument));
    check_reason(part);
    check_reason(
        "memory_limit_mib (int, 0 or more, 0 for no limit), allow_tf32 (bool), cuda_graphs");
    BOOST_TEST((get_option("AotiCudaBackend", {listed, 2}) == Error::Ok));
    BOOST_TEST(std::get<int>(listed[0].value) == 1);  // none of them is set
  };
  BackendOptions<2> unknown;
  BOOST_TEST((unknown.set_option("memory_limit_mib", 5) == Error::Ok));
  BOOST_TEST((unknown.set_option("memory_limit", 5) == Error::Ok));
  refuse(unknown, "there is no option 'memory_limit'");
  BackendOptions<1> kind;
  BOOST_TEST((kind.set_option("memory_limit_mib", true) == Error::Ok));
  refuse(kind, "option 'memory_limit_mib' has a wrong value");
  BackendOptions<1> range;
  BOOST_TEST((range.set_option("memory_limit_mib", -1) == Error::Ok));
  refuse(range, "option 'memory_limit_mib' has a wrong value");
  BackendOption wrong;
  std::strcpy(wrong.key, "tf32");
  BOOST_TEST((get_option("AotiCudaBackend", {&wrong, 1}) == Error::InvalidArgument));
  check_reason("there is no option 'tf32'");

  BackendOptions<2> old;
  BOOST_TEST((old.set_option("allow_tf32", false) == Error::Ok));
  BOOST_TEST((old.set_option("memory_limit_mib", 0) == Error::Ok));
  BOOST_TEST((set_option("AotiCudaBackend", old.view()) == Error::Ok), reason());
}

BOOST_AUTO_TEST_CASE(two_threads_load_and_run) {
  const Program program;
  const Loaded shared(program);
  std::atomic<int> right{0};
  const auto work = [&] {
    for (int i = 0; i < 10; ++i) {
      const Loaded own(program);
      Call call;
      Call other;
      right += call.run(own) == Error::Ok && call.result() == expected(2, 0) &&
                       other.run(shared) == Error::Ok
                   ? 1
                   : 0;
    }
  };
  std::thread thread(work);
  work();
  thread.join();
  BOOST_TEST(right == 20);
}

BOOST_AUTO_TEST_SUITE_END()
