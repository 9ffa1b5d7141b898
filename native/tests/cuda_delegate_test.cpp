// AotiCudaBackend as the runtime sees it, on a stand-in for a compiled model and over a stand-in
// for the driver.

#include <aoti_plugins/delegate.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/device_allocator.h>
#include <executorch/runtime/core/exec_aten/util/tensor_util.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <thread>

#include "delegate/crc32.h"
#include "fake_cuda/driver_control.h"
#include "named_data.h"
#include "payload_builder.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using namespace ::executorch::runtime;
using ::executorch::extension::make_tensor_ptr;
using ::executorch::extension::TensorPtr;

namespace {

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

BackendInterface* backend() {
  return get_backend_class("AotiCudaBackend");
}

/// A payload and its named data for a fake model.
struct Program {
  Payload payload;
  NamedData data;

  explicit Program(const std::string& model = "ok", const std::string& weights_key = "weights",
                   float first_scale = 1.0f) {
    const std::vector<uint8_t> blob =
        read_file(AOTIP_FAKE_CUDA_DIR "/fake_cuda_model_" + model + ".so");
    payload = fake_payload(blob.size(), crc32(blob.data(), blob.size()));
    payload.device = "cuda";
    payload.targets[0].key = model + "_so_blob";
    payload.targets[0].features = {"sm_90", "shared_memory_1024"};
    payload.targets[0].symbols = {"aoti_torch_create_cuda_stream_guard",
                                  "aoti_torch_empty_strided"};
    payload.storages[0].key = weights_key;
    payload.inputs.resize(1);
    payload.outputs.resize(1);
    data.set(payload.targets[0].key, blob.data(), blob.size());
    const float scale[] = {-1.0f, first_scale, 2.0f, 3.0f};
    const int64_t calls = 0;
    data.set(weights_key, scale, sizeof(scale));
    data.set("state", &calls, sizeof(calls));
  }
};

std::string reason() {
  return aotip_delegate_last_error();
}

void check_reason(const std::string& part) {
  BOOST_TEST(reason().find(part) != std::string::npos,
             "'" << reason() << "' lacks '" << part << "'");
}

/// A loaded delegate; destroyed with this object.
class Loaded {
 public:
  explicit Loaded(const Program& program, const std::string& target_device = "",
                  Span<BackendOption> options = {})
      : bytes_(PayloadBuilder().payload(program.payload).encode(1, program.payload.flags)),
        device_(target_device) {
    BackendInitContext context(nullptr, nullptr, "forward", &program.data,
                               Span<const BackendOption>(options.data(), options.size()));
    FreeableBuffer processed(bytes_.data(), bytes_.size(), nullptr);
    aotip_delegate_clear_error();
    const CompileSpec spec{"target_device", {device_.data(), device_.size()}};
    const auto result =
        backend()->init(context, &processed, ArrayRef<CompileSpec>(&spec, device_.empty() ? 0 : 1));
    handle_ = result.ok() ? result.get() : nullptr;
  }
  ~Loaded() {
    if (handle_ != nullptr) {
      backend()->destroy(handle_);
    }
  }
  bool ok() const { return handle_ != nullptr; }

  Error run(EValue& x, EValue& y) const {
    BackendExecutionContext context;
    EValue* args[] = {&x, &y};
    return backend()->execute(context, handle_, Span<EValue*>(args, 2));
  }

 private:
  std::vector<uint8_t> bytes_;
  std::string device_;
  DelegateHandle* handle_ = nullptr;
};

/// Host arguments of the model for `rows` rows of ones.
struct Call {
  TensorPtr x;
  TensorPtr y;
  EValue args[2];

  explicit Call(int32_t rows = 2)
      : x(make_tensor_ptr({rows, 3}, std::vector<float>(static_cast<size_t>(rows) * 3, 1.0f))),
        y(make_tensor_ptr({8, 3}, std::vector<float>(24, -9.0f))) {
    args[0] = EValue(*x);
    args[1] = EValue(*y);
  }
  Error run(const Loaded& loaded) { return loaded.run(args[0], args[1]); }
  std::vector<float> result() const {
    const float* data = y->const_data_ptr<float>();
    return std::vector<float>(data, data + y->numel());
  }
};

std::vector<float> expected(int32_t rows, float calls) {
  std::vector<float> values;
  for (int32_t i = 0; i < rows; ++i) {
    values.insert(values.end(), {1 + calls, 2 + calls, 3 + calls});
  }
  return values;
}

/// Checks that the driver saw no misuse and that everything is given back.
struct Clean {
  Clean() {
    if (backend() != nullptr && fake().reset != nullptr) {
      fake().reset();
    }
    nbytes = fake().device_nbytes();
    objects = fake().live_objects();
  }
  ~Clean() {
    BOOST_TEST(std::string(fake().misuse()) == "");
    BOOST_TEST(fake().device_nbytes() == nbytes);
    BOOST_TEST(fake().live_objects() == objects);
  }
  size_t nbytes = 0;
  size_t objects = 0;
};

/// A program whose calls become CUDA graphs.
struct GraphProgram : Program {
  GraphProgram() { payload.flags = kCudaGraphs; }
};

/// Memory of the stand-in GPU through ExecuTorch's allocator.
struct DeviceMemory {
  explicit DeviceMemory(size_t nbytes)
      : allocator(get_device_allocator(etensor::DeviceType::CUDA)),
        data(allocator->allocate(nbytes, 0).get()) {}
  ~DeviceMemory() { allocator->deallocate(data, 0); }
  DeviceAllocator* allocator;
  void* data;
};

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
  const DeviceMemory x(24);
  const DeviceMemory y(24);
  const std::vector<float> ones(6, 1.0f);
  BOOST_TEST((x.allocator->copy_host_to_device(x.data, ones.data(), 24, 0) == Error::Ok));
  auto x_tensor = ::executorch::extension::from_blob(x.data, {2, 3});
  auto y_tensor = ::executorch::extension::from_blob(y.data, {2, 3});
  EValue args[] = {EValue(*x_tensor), EValue(*y_tensor)};
  BOOST_TEST((loaded.run(args[0], args[1]) == Error::Ok), reason());
  const size_t waits = fake().calls("cuStreamSynchronize");
  const size_t up = fake().calls("cuMemcpyHtoDAsync_v2");
  const size_t down = fake().calls("cuMemcpyDtoHAsync_v2");
  BOOST_TEST((loaded.run(args[0], args[1]) == Error::Ok), reason());
  BOOST_TEST(fake().calls("cuStreamSynchronize") == waits);
  BOOST_TEST(fake().calls("cuMemcpyHtoDAsync_v2") == up);
  BOOST_TEST(fake().calls("cuMemcpyDtoHAsync_v2") == down);
  std::vector<float> result(6);
  BOOST_TEST((y.allocator->copy_device_to_host(result.data(), y.data, 24, 0) == Error::Ok));
  BOOST_TEST(result == expected(2, 1));
}

BOOST_AUTO_TEST_CASE(results_are_computed_where_the_program_wants_them) {
  const Program program;
  const Loaded loaded(program);
  const DeviceMemory x(60);
  const DeviceMemory y(60);
  const std::vector<float> ones(15, 1.0f);
  const auto run = [&](int32_t rows, void* to, float calls) {
    const size_t size = static_cast<size_t>(rows) * 12;
    BOOST_TEST((x.allocator->copy_host_to_device(x.data, ones.data(), size, 0) == Error::Ok));
    auto x_tensor = ::executorch::extension::from_blob(x.data, {rows, 3});
    auto y_tensor = ::executorch::extension::from_blob(to, {rows, 3});
    EValue args[] = {EValue(*x_tensor), EValue(*y_tensor)};
    const size_t copies = fake().calls("cuMemcpyDtoDAsync_v2");
    BOOST_TEST_REQUIRE((loaded.run(args[0], args[1]) == Error::Ok), reason());
    std::vector<float> result(static_cast<size_t>(rows) * 3);
    BOOST_TEST((y.allocator->copy_device_to_host(result.data(), to, size, 0) == Error::Ok));
    BOOST_TEST(result == expected(rows, calls));
    return fake().calls("cuMemcpyDtoDAsync_v2") - copies;
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

BOOST_AUTO_TEST_CASE(the_second_call_is_captured_and_later_ones_are_launched) {
  const GraphProgram program;
  const Loaded loaded(program);
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  for (int32_t round = 0; round < 5; ++round) {
    Call call;
    BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
    BOOST_TEST(call.result() == expected(2, static_cast<float>(round)));
  }
  BOOST_TEST(fake().calls("cuLaunchKernel") == 2u);
  BOOST_TEST(fake().calls("cuGraphLaunch") == 4u);
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 1u);
}

BOOST_AUTO_TEST_CASE(graphs_for_several_shapes) {
  const GraphProgram program;
  const Loaded loaded(program);
  for (int32_t round = 0; round < 12; ++round) {
    const int32_t rows = round % 3 == 2 ? 0 : round % 3 + 2;
    Call call(rows);
    BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
    BOOST_TEST(call.y->size(0) == rows);
    const float calls = static_cast<float>(round - round / 3);  // those with rows count
    BOOST_TEST(call.result() == expected(rows, calls));
  }
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 3u);
  BOOST_TEST(fake().calls("cuGraphLaunch") == 9u);
}

BOOST_AUTO_TEST_CASE(a_graph_reads_and_writes_the_callers_memory) {
  const GraphProgram program;
  const Loaded loaded(program);
  const std::vector<float> ones(6, 1.0f);
  std::vector<std::unique_ptr<DeviceMemory>> buffers;
  const auto buffer = [&](size_t index) {
    while (buffers.size() <= index) {
      buffers.push_back(std::make_unique<DeviceMemory>(24));
    }
    return buffers[index]->data;
  };
  const auto run = [&](size_t x_index, size_t y_index, float calls) {
    DeviceAllocator* allocator = get_device_allocator(etensor::DeviceType::CUDA);
    void* x = buffer(x_index);
    void* y = buffer(y_index);
    BOOST_TEST((allocator->copy_host_to_device(x, ones.data(), 24, 0) == Error::Ok));
    auto x_tensor = ::executorch::extension::from_blob(x, {2, 3});
    auto y_tensor = ::executorch::extension::from_blob(y, {2, 3});
    EValue args[] = {EValue(*x_tensor), EValue(*y_tensor)};
    const size_t copies = fake().calls("cuMemcpyDtoDAsync_v2");
    BOOST_TEST_REQUIRE((loaded.run(args[0], args[1]) == Error::Ok), reason());
    std::vector<float> result(6);
    BOOST_TEST((allocator->copy_device_to_host(result.data(), y, 24, 0) == Error::Ok));
    BOOST_TEST(result == expected(2, calls), boost::test_tools::per_element());
    return fake().calls("cuMemcpyDtoDAsync_v2") - copies;
  };
  float calls = 0;
  (void)run(0, 1, calls++);
  (void)run(0, 1, calls++);
  BOOST_TEST(run(0, 1, calls++) == 0u);
  (void)run(2, 3, calls++);
  BOOST_TEST(run(2, 3, calls++) == 0u);
  BOOST_TEST(run(0, 1, calls++) == 0u);
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 2u);
  // Who keeps changing buffers gets a graph with its own: a copy each for input and output.
  for (size_t i = 4; i < 12; i += 2) {
    BOOST_TEST(run(i, i + 1, calls++) == 2u);
  }
  BOOST_TEST(run(0, 3, calls++) == 2u);
  BOOST_TEST(run(0, 1, calls++) == 0u);
  BOOST_TEST(fake().calls("cuGraphInstantiateWithFlags") == 3u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_captured_runs_without_a_graph) {
  const struct {
    const char* function;
    int nth;  // of its calls from the second call of the model on
  } failures[] = {{"cuStreamBeginCapture_v2", 1},
                  {"cuLaunchKernel", 1},
                  {"cuStreamEndCapture", 1},
                  {"cuGraphInstantiateWithFlags", 1}};
  for (const auto& failure : failures) {
    BOOST_TEST_CONTEXT(failure.function) {
      const GraphProgram program;
      const Loaded loaded(program);
      const size_t launches = fake().calls("cuGraphLaunch");
      for (int32_t round = 0; round < 4; ++round) {
        if (round == 1) {
          fake().fail(failure.function, failure.nth, CUDA_ERROR_UNKNOWN);
        }
        Call call;
        BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
        BOOST_TEST(call.result() == expected(2, static_cast<float>(round)));
      }
      BOOST_TEST(fake().calls("cuGraphLaunch") == launches);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_launch_that_fails_is_the_calls_failure) {
  const GraphProgram program;
  const Loaded loaded(program);
  Call call;
  BOOST_TEST((call.run(loaded) == Error::Ok));
  BOOST_TEST((call.run(loaded) == Error::Ok));
  fake().fail("cuGraphLaunch", 1, CUDA_ERROR_UNKNOWN);
  BOOST_TEST((call.run(loaded) != Error::Ok));
  check_reason("cuGraphLaunch failed");
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 2));
}

BOOST_AUTO_TEST_CASE(graphs_are_given_up_where_memory_runs_out) {
  const GraphProgram program;
  const Loaded loaded(program);
  Call call;
  BOOST_TEST((call.run(loaded) == Error::Ok));
  BOOST_TEST((call.run(loaded) == Error::Ok));
  BOOST_TEST(fake().calls("cuGraphLaunch") == 1u);
  Call other(7);
  fake().set_memory(fake().device_nbytes());
  BOOST_TEST((other.run(loaded) != Error::Ok));
  check_reason("CUDA_ERROR_OUT_OF_MEMORY");
  // What the graphs had is free now.
  BOOST_TEST((other.run(loaded) == Error::Ok), reason());
  BOOST_TEST(other.result() == expected(7, 2));
  fake().set_memory(size_t{1} << 30);
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  BOOST_TEST(call.result() == expected(2, 3));
  BOOST_TEST(fake().calls("cuGraphLaunch") == 1u);
}

BOOST_AUTO_TEST_CASE(graphs_by_option) {
  const auto graphs_of = [](const Program& program, Span<BackendOption> options) {
    const Loaded loaded(program, "", options);
    BOOST_TEST_REQUIRE(loaded.ok(), reason());
    const size_t before = fake().calls("cuGraphLaunch");
    for (int i = 0; i < 3; ++i) {
      Call call;
      BOOST_TEST((call.run(loaded) == Error::Ok), reason());
    }
    return fake().calls("cuGraphLaunch") - before;
  };
  const auto set_mode = [](int mode) {
    BackendOptions<1> options;
    BOOST_TEST((options.set_option("cuda_graphs", mode) == Error::Ok));
    return set_option("AotiCudaBackend", options.view());
  };
  const Program plain;
  const GraphProgram graphs;
  BackendOptions<1> on;
  BackendOptions<1> off;
  BackendOptions<1> wrong;
  BOOST_TEST((on.set_option("cuda_graphs", true) == Error::Ok));
  BOOST_TEST((off.set_option("cuda_graphs", false) == Error::Ok));
  BOOST_TEST((wrong.set_option("graphs", true) == Error::Ok));
  BOOST_TEST(graphs_of(plain, {}) == 0u);
  BOOST_TEST(graphs_of(plain, on.view()) == 2u);
  BOOST_TEST(graphs_of(graphs, {}) == 2u);
  BOOST_TEST(graphs_of(graphs, off.view()) == 0u);
  BOOST_TEST((set_mode(0) == Error::Ok));
  BOOST_TEST(graphs_of(graphs, {}) == 0u);
  BOOST_TEST(graphs_of(graphs, on.view()) == 2u);
  BOOST_TEST((set_mode(2) == Error::Ok));
  BOOST_TEST(graphs_of(plain, {}) == 2u);
  BOOST_TEST((set_mode(3) == Error::InvalidArgument));
  BOOST_TEST((set_mode(1) == Error::Ok));
  BOOST_TEST(!Loaded(plain, "", wrong.view()).ok());
  check_reason("option 'graphs'");
  check_reason("cuda_graphs (bool)");
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
  check_reason("out of memory: the weights 'weights'");
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

BOOST_AUTO_TEST_CASE(options_are_listed_set_and_checked) {
  BackendOption listed[4];
  BOOST_TEST((get_option("AotiCudaBackend", {listed, 4}) == Error::Ok), reason());
  BOOST_TEST(std::string(listed[0].key) == "memory_limit_mib");
  BOOST_TEST(std::get<int>(listed[0].value) == 0);
  BOOST_TEST(std::string(listed[1].key) == "allow_tf32");
  BOOST_TEST(!std::get<bool>(listed[1].value));
  BOOST_TEST(std::string(listed[2].key) == "cuda_graphs");
  BOOST_TEST(std::get<int>(listed[2].value) == 1);
  BOOST_TEST(std::string(listed[3].key) == "");

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
