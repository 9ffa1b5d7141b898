// The delegate as the runtime sees it, on a stand-in for a compiled model: what works, and every
// way to fail.

#include <aoti_plugins/delegate.h>
#include <dlfcn.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>
#include <executorch/runtime/backend/interface.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>
#include <variant>

#include "delegate/sha256.h"
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

size_t count_entries(const char* folder) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    (void)entry;
    ++count;
  }
  return count;
}

size_t count_mappings(const char* name) {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  size_t count = 0;
  while (std::getline(maps, line)) {
    count += line.find(name) != std::string::npos ? 1 : 0;
  }
  return count;
}

/// A payload and its named data for one of the fake models.
struct Program {
  Payload payload;
  NamedData data;

  explicit Program(const std::string& model = "ok") {
    const std::vector<uint8_t> blob =
        read_file(AOTIP_FAKE_MODEL_DIR "/fake_model_" + model + ".so");
    payload = fake_payload(blob.size(), sha256(blob.data(), blob.size()));
    payload.targets[0].key = model + "_so_blob";
    data.set(payload.targets[0].key, blob.data(), blob.size());
    const float scale[] = {-1.0f, 1.0f, 2.0f, 3.0f};
    const int64_t calls = 0;
    data.set("weights", scale, sizeof(scale));
    data.set("state", &calls, sizeof(calls));
  }
};

BackendInterface* backend() {
  return get_backend_class("AotiCpuBackend");
}

/// A loaded delegate; destroyed with this object.
class Loaded {
 public:
  explicit Loaded(const Program& program)
      : Loaded(PayloadBuilder().payload(program.payload).encode(), &program.data) {}
  Loaded(const Program& program, std::vector<BackendOption> options)
      : bytes_(PayloadBuilder().payload(program.payload).encode()), options_(std::move(options)) {
    init(&program.data);
  }
  Loaded(const std::vector<uint8_t>& payload, const NamedDataMap* map) : bytes_(payload) {
    init(map);
  }
  ~Loaded() {
    if (handle_ != nullptr) {
      backend()->destroy(handle_);
    }
  }
  bool ok() const { return handle_ != nullptr; }

  Error run(std::vector<EValue*> args) const {
    BackendExecutionContext context;
    return backend()->execute(context, handle_, Span<EValue*>(args.data(), args.size()));
  }

 private:
  void init(const NamedDataMap* map) {
    BackendInitContext context(nullptr, nullptr, "forward", map,
                               Span<const BackendOption>(options_.data(), options_.size()));
    FreeableBuffer processed(bytes_.data(), bytes_.size(), nullptr);
    aotip_delegate_clear_error();
    const auto result = backend()->init(context, &processed, {});
    handle_ = result.ok() ? result.get() : nullptr;
  }

  std::vector<uint8_t> bytes_;
  std::vector<BackendOption> options_;
  DelegateHandle* handle_ = nullptr;
};

/// The option that joins the state of delegates.
std::vector<BackendOption> shared_state(std::variant<bool, int> id) {
  BackendOption option;
  std::snprintf(option.key, sizeof(option.key), "shared_state");
  std::visit([&](auto value) { option.value = value; }, id);
  return {option};
}

/// Arguments of the fake model for `rows` rows.
struct Call {
  TensorPtr x;
  TensorPtr y;
  EValue args[4];

  explicit Call(int32_t rows = 2, int64_t k = 10, int32_t y_rows = 8)
      : x(make_tensor_ptr({rows, 3}, std::vector<float>(static_cast<size_t>(rows) * 3, 1.0f))),
        y(make_tensor_ptr({y_rows, 3},
                          std::vector<float>(static_cast<size_t>(y_rows) * 3, -9.0f))) {
    args[0] = EValue(*x);
    args[1] = EValue(k);
    args[2] = EValue(*y);
    args[3] = EValue(int64_t{-1});
  }
  std::vector<EValue*> list() { return {&args[0], &args[1], &args[2], &args[3]}; }
};

std::string reason() {
  return aotip_delegate_last_error();
}

void check_reason(const std::string& part) {
  BOOST_TEST(reason().find(part) != std::string::npos,
             "'" << reason() << "' lacks '" << part << "'");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(delegate)

BOOST_AUTO_TEST_CASE(is_registered_and_available) {
  BOOST_TEST_REQUIRE(backend() != nullptr);
  BOOST_TEST(backend()->is_available());
}

BOOST_AUTO_TEST_CASE(runs_and_keeps_state) {
  for (const char* model : {"ok", "map"}) {
    const Program program(model);
    const Loaded loaded(program);
    BOOST_TEST_REQUIRE(loaded.ok(), reason());
    for (int64_t round = 0; round < 3; ++round) {
      Call call;
      BOOST_TEST_REQUIRE((loaded.run(call.list()) == Error::Ok), reason());
      BOOST_TEST(call.y->size(0) == 2);
      const float base = static_cast<float>(10 + round);
      const float expected[] = {1 + base, 2 + base, 3 + base};
      BOOST_TEST(std::memcmp(call.y->const_data_ptr<float>() + 3, expected, sizeof(expected)) == 0);
      BOOST_TEST(call.args[3].toInt() == round);
    }
  }
}

BOOST_AUTO_TEST_CASE(state_belongs_to_one_delegate) {
  const Program program;
  const Loaded first(program);
  const Loaded second(program);
  Call call;
  BOOST_TEST((first.run(call.list()) == Error::Ok));
  BOOST_TEST((first.run(call.list()) == Error::Ok));
  BOOST_TEST((second.run(call.list()) == Error::Ok));
  BOOST_TEST(call.args[3].toInt() == 0);
  BOOST_TEST(*static_cast<const int64_t*>(program.data.bytes("state")) == 0);
}

BOOST_AUTO_TEST_CASE(state_is_shared_by_id) {
  const Program program;
  Call call;
  {
    const Loaded first(program, shared_state(5));
    size_t count = 9;
    BOOST_TEST(aotip_delegate_shared_count(5, &count) == 0);
    BOOST_TEST(count == 0u);
    const Loaded second(program, shared_state(5));
    const Loaded other(program, shared_state(6));
    BOOST_TEST(aotip_delegate_shared_count(5, &count) == 0);
    BOOST_TEST(count == 1u);
    int64_t expected = 0;
    for (const Loaded* loaded : {&first, &second, &first}) {
      BOOST_TEST_REQUIRE((loaded->run(call.list()) == Error::Ok), reason());
      BOOST_TEST(call.args[3].toInt() == expected++);
    }
    BOOST_TEST((other.run(call.list()) == Error::Ok));
    BOOST_TEST(call.args[3].toInt() == 0);
  }
  const Loaded later(program, shared_state(5));
  BOOST_TEST((later.run(call.list()) == Error::Ok));
  BOOST_TEST(call.args[3].toInt() == 0);
}

BOOST_AUTO_TEST_CASE(a_buffer_of_its_own_is_not_shared) {
  Program program;
  program.payload.constants[1].kind = ConstantKind::kOwnBuffer;
  const Loaded first(program, shared_state(5));
  const Loaded second(program, shared_state(5));
  Call call;
  for (const Loaded* loaded : {&first, &second}) {
    BOOST_TEST_REQUIRE((loaded->run(call.list()) == Error::Ok), reason());
    BOOST_TEST(call.args[3].toInt() == 0);
  }
  BOOST_TEST((first.run(call.list()) == Error::Ok));
  BOOST_TEST(call.args[3].toInt() == 1);
}

BOOST_AUTO_TEST_CASE(state_that_does_not_fit_is_refused) {
  const Program program;
  const Loaded first(program, shared_state(5));
  Program changed;
  changed.payload.constants[1].sizes = {1};
  changed.payload.constants[1].strides = {1};
  BOOST_TEST(!Loaded(changed, shared_state(5)).ok());
  check_reason("buffer 'calls' is int64 [1], and int64 []");
  for (const std::variant<bool, int> wrong :
       {std::variant<bool, int>(-1), std::variant<bool, int>(true)}) {
    BOOST_TEST(!Loaded(program, shared_state(wrong)).ok());
    check_reason("option 'shared_state' of a load is an int");
  }
  std::vector<BackendOption> unknown = shared_state(1);
  std::strcpy(unknown[0].key, "share");
  BOOST_TEST(!Loaded(program, unknown).ok());
  check_reason("option 'share', the options are: shared_state (int)");
}

BOOST_AUTO_TEST_CASE(threads_take_turns_with_a_shared_state) {
  constexpr int64_t kCalls = 200;
  const Program program;
  const Loaded first(program, shared_state(7));
  const Loaded second(program, shared_state(7));
  std::vector<std::thread> threads;
  for (const Loaded* loaded : {&first, &second}) {
    threads.emplace_back([loaded] {
      for (int64_t i = 0; i < kCalls; ++i) {
        Call call;
        (void)loaded->run(call.list());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  Call call;
  BOOST_TEST((first.run(call.list()) == Error::Ok));
  BOOST_TEST(call.args[3].toInt() == 2 * kCalls);
}

BOOST_AUTO_TEST_CASE(weights_stay_where_they_are_and_are_read_once) {
  const Program program;
  const size_t before = program.data.open_buffers();
  {
    const Loaded first(program);
    const Loaded second(program);
    BOOST_TEST(program.data.gets("weights") == 1u);
    BOOST_TEST(program.data.open_buffers() == before + 1);
    // In place: a change of the program's memory is seen by the model.
    static_cast<float*>(const_cast<void*>(program.data.bytes("weights")))[1] = 100.0f;
    Call call(1, 0);
    BOOST_TEST((second.run(call.list()) == Error::Ok));
    BOOST_TEST(call.y->const_data_ptr<float>()[0] == 100.0f);
  }
  BOOST_TEST(program.data.open_buffers() == before);
}

BOOST_AUTO_TEST_CASE(misaligned_weights_are_copied) {
  Program program;
  const float scale[] = {-1.0f, 4.0f, 5.0f, 6.0f};
  program.data.set("weights", scale, sizeof(scale), 3);
  const Loaded loaded(program);
  BOOST_TEST(program.data.open_buffers() == 0u);
  Call call(1, 0);
  BOOST_TEST((loaded.run(call.list()) == Error::Ok));
  BOOST_TEST(call.y->const_data_ptr<float>()[0] == 4.0f);
}

BOOST_AUTO_TEST_CASE(empty_and_largest_inputs) {
  const Program program;
  const Loaded loaded(program);
  for (int32_t rows : {0, 8}) {
    Call call(rows);
    BOOST_TEST((loaded.run(call.list()) == Error::Ok), reason());
    BOOST_TEST(call.y->size(0) == rows);
  }
}

BOOST_AUTO_TEST_CASE(inputs_of_another_dim_order_are_copied) {
  const Program program;
  const Loaded loaded(program);
  Call call;
  float data[] = {1, 4, 2, 5, 3, 6};
  call.x = make_tensor_ptr({2, 3}, data, {1, 0}, {1, 2});
  call.args[0] = EValue(*call.x);
  BOOST_TEST((loaded.run(call.list()) == Error::Ok), reason());
  const float expected[] = {11, 14, 19, 14, 20, 28};
  BOOST_TEST(std::memcmp(call.y->const_data_ptr<float>(), expected, sizeof(expected)) == 0);
}

BOOST_AUTO_TEST_CASE(wrong_arguments_have_reasons) {
  const Program program;
  const Loaded loaded(program);
  const auto fails = [&](Call& call, const std::string& expected) {
    BOOST_TEST((loaded.run(call.list()) == Error::InvalidArgument));
    check_reason("AotiCpuBackend: execute of method 'forward': " + expected);
  };
  Call call;
  const TensorPtr rows = make_tensor_ptr({9, 3}, std::vector<float>(27));
  call.args[0] = EValue(*rows);
  fails(call, "input 0 has size 9 in dim 0, expected 0 to 8");
  const TensorPtr cols = make_tensor_ptr({2, 4}, std::vector<float>(8));
  call.args[0] = EValue(*cols);
  fails(call, "input 0 has size 4 in dim 1, expected 3");
  const TensorPtr flat = make_tensor_ptr({6}, std::vector<float>(6));
  call.args[0] = EValue(*flat);
  fails(call, "input 0 has 1 dims, expected 2");
  const TensorPtr ints = make_tensor_ptr({2, 3}, std::vector<int32_t>(6));
  call.args[0] = EValue(*ints);
  fails(call, "input 0 is int32, expected float32");
  call.args[0] = EValue(int64_t{1});
  fails(call, "input 0 is no tensor");
  Call second;
  second.args[1] = EValue(1.5);
  fails(second, "input 1 is no int");
  Call small(8, 1, 2);
  fails(small, "output 0 does not fit into the memory that the program has for it");
  Call third;
  BOOST_TEST((loaded.run({&third.args[0]}) == Error::InvalidArgument));
  check_reason("1 arguments, expected 2 inputs and 2 outputs");
  BackendExecutionContext context;
  BOOST_TEST((backend()->execute(context, nullptr, {}) == Error::DelegateInvalidHandle));
  // And it still runs.
  BOOST_TEST((loaded.run(third.list()) == Error::Ok));
}

BOOST_AUTO_TEST_CASE(models_that_fail_do_so_with_a_reason) {
  const std::pair<const char*, const char*> loads[] = {
      {"create_fails", "creating the model failed: no container today"},
      {"lacks_run", "the blob is no AOTInductor model: it lacks AOTInductorModelContainerRun"},
      {"three_outputs", "the model has 2 inputs and 3 outputs, the payload says 2 and 2"},
      {"unknown_shim", "undefined symbol: "},
  };
  for (const auto& [model, expected] : loads) {
    const Program program(model);
    BOOST_TEST(!Loaded(program).ok());
    check_reason("AotiCpuBackend: init of method 'forward': ");
    check_reason(expected);
  }
  const std::pair<const char*, const char*> runs[] = {
      {"run_fails", "running the model failed: the model says no"},
      {"throws_early", "thrown before the inputs were taken"},
      {"throws_across", "thrown across the boundary"},
      {"wrong_dtype", "the model returns int32 for output 0, the program has float32 there"},
  };
  for (const auto& [model, expected] : runs) {
    const Program program(model);
    const Loaded loaded(program);
    BOOST_TEST_REQUIRE(loaded.ok(), reason());
    Call call;
    BOOST_TEST((loaded.run(call.list()) != Error::Ok));
    check_reason(expected);
  }
}

BOOST_AUTO_TEST_CASE(missing_symbols_are_listed_before_anything_is_loaded) {
  Program program("unknown_shim");
  program.payload.targets[0].symbols = {"aoti_torch_clone", "aoti_torch_cpu_unheard_of",
                                        "aoti_torch_zzz"};
  BOOST_TEST(!Loaded(program).ok());
  check_reason(
      "calls 2 C shims that nothing here provides: aoti_torch_cpu_unheard_of, aoti_torch_zzz.");
}

BOOST_AUTO_TEST_CASE(kernel_libraries_provide_symbols) {
  Program program("unknown_shim");
  program.payload.targets[0].symbols = {"aoti_torch_cpu_unheard_of"};
  program.payload.targets[0].libraries = {{"libno_such_kernels.so", "1.2", "their-hooks"}};
  BOOST_TEST(!Loaded(program).ok());
  check_reason(
      "kernel library libno_such_kernels.so (version 1.2, from their-hooks) does not load");
  BOOST_TEST(aotip_add_kernel_library(nullptr, "path") != 0);
  BOOST_TEST(aotip_add_kernel_library("libfake_kernels.so", nullptr) != 0);
  BOOST_TEST_REQUIRE(aotip_add_kernel_library("libfake_kernels.so",
                                              AOTIP_FAKE_MODEL_DIR "/libfake_kernels.so") == 0);
  Program good("kernel");
  good.payload.targets[0].symbols = {"aoti_torch_cpu_unheard_of"};
  good.payload.targets[0].libraries = {{"libfake_kernels.so", "1.2", "their-hooks"}};
  const Loaded loaded(good);
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  Call call;
  BOOST_TEST((loaded.run(call.list()) == Error::Ok), reason());
}

BOOST_AUTO_TEST_CASE(a_kernel_library_that_is_in_the_process_comes_first) {
  void* const library = dlopen(AOTIP_FAKE_MODEL_DIR "/libfake_kernels.so", RTLD_NOW | RTLD_LOCAL);
  BOOST_TEST_REQUIRE(library != nullptr, dlerror());
  BOOST_TEST_REQUIRE(aotip_add_kernel_library("libfake_kernels.so", "/no/such/file.so") == 0);
  {
    Program good("kernel");
    good.payload.targets[0].symbols = {"aoti_torch_cpu_unheard_of"};
    good.payload.targets[0].libraries = {{"libfake_kernels.so", "1.3.0", "their-hooks"}};
    const Loaded loaded(good);
    BOOST_TEST(loaded.ok(), reason());
  }
  dlclose(library);
}

BOOST_AUTO_TEST_CASE(an_older_kernel_library_is_refused) {
  BOOST_TEST_REQUIRE(aotip_add_kernel_library("libfake_kernels.so",
                                              AOTIP_FAKE_MODEL_DIR "/libfake_kernels.so") == 0);
  for (const char* needed : {"1.3.1", "1.10", "2"}) {
    Program program("unknown_shim");
    program.payload.targets[0].libraries = {{"libfake_kernels.so", needed, "their-hooks"}};
    BOOST_TEST(!Loaded(program).ok());
    check_reason(std::string("kernel library libfake_kernels.so (version ") + needed +
                 ", from their-hooks) is only version 1.3 here. Upgrade their-hooks to " + needed +
                 ". Found: ");
    check_reason("libfake_kernels.so.");
  }
}

BOOST_AUTO_TEST_CASE(damaged_programs_are_refused) {
  const auto fails = [](const std::function<void(Program&)>& change, const std::string& expected) {
    Program program;
    program.payload.targets[0].key = "damaged_so_blob";
    const std::vector<uint8_t> blob = read_file(AOTIP_FAKE_MODEL_DIR "/fake_model_ok.so");
    program.data.set("damaged_so_blob", blob.data(), blob.size());
    change(program);
    BOOST_TEST(!Loaded(program).ok());
    check_reason(expected);
  };
  fails([](Program& p) { p.payload.device = "tpu"; }, "for device 'tpu', this delegate runs 'cpu'");
  fails([](Program& p) { p.data.erase("damaged_so_blob"); },
        "blob 'damaged_so_blob' of target here is not in the program");
  fails([](Program& p) { p.data.erase("weights"); },
        "the weights 'weights' are not in the program");
  fails([](Program& p) { p.data.set("weights", "abc", 3); },
        "the weights 'weights' have 3 bytes, the payload says 16");
  fails([](Program& p) { p.payload.targets[0].nbytes += 1; }, "the payload says ");
  fails([](Program& p) { (*p.payload.targets[0].sha256)[31] ^= 1; },
        "sha256 of blob 'damaged_so_blob' is ");
  fails(
      [](Program& p) {
        p.payload.version = kFirstPayloadVersion;
        p.payload.targets[0].crc32 = 1;
      },
      "crc32 of blob 'damaged_so_blob' is ");
  fails([](Program& p) { p.payload.targets[0].machine = "sparc"; }, "no code for this machine");
  fails([](Program& p) { p.payload.constants.erase(p.payload.constants.begin()); },
        "the payload lacks constants of the model: 'layer.scale'");
  fails([](Program& p) { p.payload.constants[0].dtype = 3; },
        "constant 'layer.scale' is int32 in the payload and float32 in the model");
  fails(
      [](Program& p) {
        std::vector<uint8_t> blob(200, 7);
        p.data.set("damaged_so_blob", blob.data(), blob.size());
        p.payload.targets[0].nbytes = blob.size();
        p.payload.targets[0].sha256 = sha256(blob.data(), blob.size());
      },
      "is not an ELF file");
  const Program program;
  BOOST_TEST(!Loaded(std::vector<uint8_t>(40, 1), &program.data).ok());
  check_reason("magic at byte 0");
  BOOST_TEST(!Loaded(PayloadBuilder().payload(program.payload).encode(), nullptr).ok());
  check_reason("the runtime gives no named data");
}

BOOST_AUTO_TEST_CASE(nothing_is_left_after_many_cycles) {
  const Program program;
  const auto cycle = [&] {
    const Loaded loaded(program);
    Call call;
    BOOST_TEST_REQUIRE((loaded.run(call.list()) == Error::Ok), reason());
    // From another thread too: its thread-locals must not keep the blob.
    std::thread([&] { BOOST_TEST((loaded.run(call.list()) == Error::Ok)); }).join();
  };
  cycle();
  const size_t files = count_entries("/proc/self/fd");
  [[maybe_unused]] const size_t mappings = count_mappings("");
  BOOST_TEST(count_mappings("aoti_plugins_blob") == 0u);
  for (int i = 0; i < 200; ++i) {
    cycle();
  }
  BOOST_TEST(count_entries("/proc/self/fd") == files);
  BOOST_TEST(count_mappings("aoti_plugins_blob") == 0u);
#ifndef __SANITIZE_THREAD__  // which maps memory for every thread there ever was
  BOOST_TEST(count_mappings("") <= mappings + 8);  // the allocator's own
#endif
}

BOOST_AUTO_TEST_CASE(equal_blobs_are_mapped_once) {
  const Program program;
  const Loaded first(program);
  const size_t one = count_mappings("aoti_plugins_blob");
  BOOST_TEST(one > 0u);
  const Loaded second(program);
  BOOST_TEST(count_mappings("aoti_plugins_blob") == one);
  const Program other("map");
  const Loaded third(other);
  BOOST_TEST(count_mappings("aoti_plugins_blob") > one);
}

BOOST_AUTO_TEST_CASE(threads_share_one_delegate_and_load_their_own) {
  const Program program;
  const Loaded shared(program);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        Call call;
        const Loaded own(program);
        failures += own.ok() && own.run(call.list()) == Error::Ok ? 0 : 1;
        failures += shared.run(call.list()) == Error::Ok ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  BOOST_TEST(failures == 0);
  Call call;
  BOOST_TEST((shared.run(call.list()) == Error::Ok));
  BOOST_TEST(call.args[3].toInt() == 200);
}

BOOST_AUTO_TEST_SUITE_END()
