// AotiMpsBackend as the runtime sees it, on a stand-in for a compiled model and over a stand-in for
// Metal.

#include <aoti_plugins/delegate.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/backend/options.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "delegate/sha256.h"
#include "metal_host/stand_in/stand_in.h"
#include "named_data.h"
#include "payload_builder.h"

using namespace aoti_plugins;
using namespace aoti_plugins::testing;
using namespace ::executorch::runtime;

namespace {

constexpr const char* kBackend = "AotiMpsBackend";
constexpr size_t kPage = 65536;  // a page of any machine that we run on divides it

BackendInterface* backend() {
  return get_backend_class(kBackend);
}

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::string reason() {
  return aotip_delegate_last_error();
}

void check_reason(const std::string& part) {
  BOOST_TEST(reason().find(part) != std::string::npos,
             "'" << reason() << "' lacks '" << part << "'");
}

/// A payload and its named data for a fake model.
struct Program {
  Payload payload;
  NamedData data;

  explicit Program(const std::string& model = "ok") {
    const auto blob = read_file(AOTIP_FAKE_MPS_DIR "/fake_mps_model_" + model + ".so");
    payload = fake_payload(blob.size(), sha256(blob.data(), blob.size()));
    payload.device = "mps";
    payload.targets[0].key = model + "_so_blob";
    payload.targets[0].features = {"macos12.0"};
    payload.targets[0].symbols = {"aoti_torch_empty_strided", "aoti_torch_mps_start_encoding"};
    payload.inputs.resize(1);
    data.set(payload.targets[0].key, blob.data(), blob.size());
    const float scale[] = {-1.0f, 1.0f, 2.0f, 3.0f};
    const int64_t calls = 0;
    data.set("weights", scale, sizeof(scale));
    data.set("state", &calls, sizeof(calls));
  }
};

class Loaded {
 public:
  explicit Loaded(const Program& program, Span<BackendOption> options = {},
                  const char* method = "forward")
      : bytes_(PayloadBuilder().payload(program.payload).encode()) {
    BackendInitContext context(nullptr, nullptr, method, &program.data,
                               Span<const BackendOption>(options.data(), options.size()));
    FreeableBuffer processed(bytes_.data(), bytes_.size(), nullptr);
    aotip_delegate_clear_error();
    const auto result = backend()->init(context, &processed, {});
    handle_ = result.ok() ? result.get() : nullptr;
  }
  ~Loaded() {
    if (handle_ != nullptr) {
      backend()->destroy(handle_);
    }
  }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  bool ok() const { return handle_ != nullptr; }

  Error run(EValue& x, EValue& y, EValue& calls) const {
    BackendExecutionContext context;
    EValue* args[] = {&x, &y, &calls};
    aotip_delegate_clear_error();
    return backend()->execute(context, handle_, Span<EValue*>(args, 3));
  }

 private:
  std::vector<uint8_t> bytes_;
  DelegateHandle* handle_ = nullptr;
};

/// Arguments of the model for `rows` rows of ones.
struct Call {
  ::executorch::extension::TensorPtr x;
  ::executorch::extension::TensorPtr y;
  EValue args[3];

  explicit Call(int32_t rows = 2)
      : x(::executorch::extension::make_tensor_ptr(
            {rows, 3}, std::vector<float>(static_cast<size_t>(rows) * 3, 1.0f))),
        y(::executorch::extension::make_tensor_ptr({8, 3}, std::vector<float>(24, -9.0f))),
        args{EValue(*x), EValue(*y), EValue(int64_t{-1})} {}

  Error run(const Loaded& loaded) { return loaded.run(args[0], args[1], args[2]); }
  bool is_right(int32_t rows, int64_t calls) const {
    const float* data = y->const_data_ptr<float>();
    bool right = y->size(0) == rows && args[2].toInt() == calls;
    for (int32_t i = 0; right && i < rows * 3; ++i) {
      right = data[i] == static_cast<float>(i % 3 + 1 + calls);
    }
    return right;
  }
};

/// Checks that Metal saw no misuse and that every program gave everything back.
struct Clean {
  Clean() {
    metal_stand_in_reset();
    objects = live();
  }
  ~Clean() {
    metal_stand_in_reset();
    BOOST_TEST(live() == objects);
    BOOST_TEST(metal_stand_in_errors() == 0, metal_stand_in_last_error());
  }
  /// All but what the runtime keeps: free memory.
  static long live() {
    BackendOptions<1> none;
    BackendOptions<1> some;
    BOOST_TEST((none.set_option("kept_memory_mib", 0) == Error::Ok));
    BOOST_TEST((some.set_option("kept_memory_mib", 256) == Error::Ok));
    BOOST_TEST((set_option(kBackend, none.view()) == Error::Ok), reason());
    BOOST_TEST((set_option(kBackend, some.view()) == Error::Ok), reason());
    const bool opened = backend()->is_available();
    BOOST_TEST(opened, reason());
    return metal_stand_in_live_objects();
  }
  long objects;
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(mps_delegate, Clean)

BOOST_AUTO_TEST_CASE(a_program_runs_and_keeps_its_state) {
  const Program program;
  const Loaded loaded(program);
  BOOST_TEST_REQUIRE(loaded.ok(), reason());
  for (int64_t calls = 0; calls < 3; ++calls) {
    Call call;
    BOOST_TEST_REQUIRE((call.run(loaded) == Error::Ok), reason());
    BOOST_TEST(call.is_right(2, calls));
  }
  Call none(0);
  BOOST_TEST((none.run(loaded) == Error::Ok), reason());
  BOOST_TEST(none.y->size(0) == 0);
}

BOOST_AUTO_TEST_CASE(programs_do_not_touch_each_other) {
  const Program program;
  const Loaded kept(program);
  {
    const Loaded other(program);
    Call call;
    BOOST_TEST((call.run(other) == Error::Ok), reason());
    BOOST_TEST((call.run(other) == Error::Ok), reason());
  }
  Call call;
  BOOST_TEST((call.run(kept) == Error::Ok), reason());
  BOOST_TEST(call.is_right(2, 0));
}

BOOST_AUTO_TEST_CASE(weights_in_whole_pages_and_large_inputs_are_not_copied) {
  Program program;
  std::vector<float> scale(kPage / 2, 3.0f);
  const float values[] = {-1.0f, 1.0f, 2.0f, 3.0f};
  std::memcpy(scale.data(), values, sizeof(values));
  program.payload.storages[0].nbytes = scale.size() * sizeof(float);
  program.payload.inputs[0].dims[0].max = 100000;
  program.payload.outputs[0].dims[0].max = 100000;
  program.data.set("weights", scale.data(), scale.size() * sizeof(float), 0, kPage);
  {
    const Loaded loaded(program);
    BOOST_TEST_REQUIRE(loaded.ok(), reason());
    BOOST_TEST(metal_stand_in_wrapped() == 1);
    BOOST_TEST(program.data.open_buffers() > 0u);
    const Loaded second(program);
    BOOST_TEST(metal_stand_in_wrapped() == 1);  // shared by both
    constexpr int32_t kRows = 40000;
    void* pages = nullptr;
    BOOST_TEST_REQUIRE(posix_memalign(&pages, kPage, kRows * 12) == 0);
    std::fill_n(static_cast<float*>(pages), kRows * 3, 1.0f);
    auto x = ::executorch::extension::from_blob(pages, {kRows, 3});
    auto y = ::executorch::extension::make_tensor_ptr({kRows, 3}, std::vector<float>(kRows * 3));
    EValue args[] = {EValue(*x), EValue(*y), EValue(int64_t{-1})};
    BOOST_TEST((loaded.run(args[0], args[1], args[2]) == Error::Ok), reason());
    BOOST_TEST(metal_stand_in_wrapped() == 2);
    BOOST_TEST(y->const_data_ptr<float>()[kRows * 3 - 1] == 3.0f);
    std::free(pages);
  }
  BOOST_TEST(program.data.open_buffers() == 0u);
}

BOOST_AUTO_TEST_CASE(what_goes_wrong_in_kernels_fails_the_call_with_its_reason) {
  const std::pair<const char*, const char*> defects[] = {
      {"bad_shader", "a shader does not compile: "},
      {"no_kernel", "a shader has no kernel 'another_kernel'"},
      {"large_group", "cannot run in groups of 1048576 x 1 x 1 threads"},
      {"run_fails", "the model says no"}};
  for (const auto& [model, part] : defects) {
    const Program program(model);
    const Loaded loaded(program);
    BOOST_TEST_REQUIRE(loaded.ok(), reason());
    for (int i = 0; i < 2; ++i) {
      Call call;
      BOOST_TEST((call.run(loaded) != Error::Ok), model);
      check_reason(part);
    }
  }
}

BOOST_AUTO_TEST_CASE(an_error_of_the_gpu_fails_one_call) {
  const Program program;
  const Loaded loaded(program);
  Call call;
  metal_stand_in_fail_command_buffer(1);
  BOOST_TEST((call.run(loaded) != Error::Ok));
  check_reason("the GPU stopped with an error: ");
  BOOST_TEST((call.run(loaded) == Error::Ok), reason());
}

BOOST_AUTO_TEST_CASE(every_allocation_may_fail) {
  const Program program;
  int failed = 0;
  for (long nth = 1; nth < 20; ++nth) {
    (void)live();  // nothing is kept
    metal_stand_in_fail_buffer(nth);
    const Loaded loaded(program);
    Call call;
    if (!loaded.ok() || call.run(loaded) != Error::Ok) {
      check_reason("out of memory");
      ++failed;
      metal_stand_in_reset();
      BOOST_TEST((!loaded.ok() || call.run(loaded) == Error::Ok), reason());
    } else {
      BOOST_TEST(call.is_right(2, 0));
    }
    metal_stand_in_reset();
  }
  BOOST_TEST(failed >= 4);
}

BOOST_AUTO_TEST_CASE(programs_for_elsewhere_are_refused) {
  Program program;
  program.payload.targets[0].machine = "arm64-apple-macos";
  BOOST_TEST(!Loaded(program).ok());
  check_reason("no code for this machine. The program was made for here (arm64-apple-macos");
  BackendOptions<1> options;
  BOOST_TEST((options.set_option("graphs", true) == Error::Ok));
  BOOST_TEST(!Loaded(Program(), options.view()).ok());
  check_reason("cannot be loaded with option 'graphs'");
}

BOOST_AUTO_TEST_CASE(methods_of_a_program_share_their_state) {
  const Program program;
  const Program other;
  const Loaded prefill(program, {}, "prefill");
  const Loaded elsewhere(other, {}, "decode");
  const Loaded decode(program, {}, "decode");
  for (int64_t calls = 0; calls < 4; ++calls) {
    Call call;
    BOOST_TEST((call.run(calls % 2 == 0 ? prefill : decode) == Error::Ok), reason());
    BOOST_TEST(call.is_right(2, calls));
  }
  Call call;
  BOOST_TEST((call.run(elsewhere) == Error::Ok), reason());
  BOOST_TEST(call.is_right(2, 0));
}

BOOST_AUTO_TEST_CASE(programs_share_state_on_request) {
  const Program program;
  BackendOptions<1> options;
  BOOST_TEST((options.set_option("shared_state", 7) == Error::Ok));
  const Loaded one(program, options.view());
  const Loaded two(program, options.view());
  Call call;
  BOOST_TEST((call.run(one) == Error::Ok), reason());
  BOOST_TEST((call.run(two) == Error::Ok), reason());
  BOOST_TEST(call.is_right(2, 1));
}

BOOST_AUTO_TEST_CASE(options_are_listed_set_and_checked) {
  BackendOption listed[4];
  BOOST_TEST((get_option(kBackend, {listed, 4}) == Error::Ok), reason());
  BOOST_TEST(std::string(listed[0].key) == "memory_limit_mib");
  BOOST_TEST(std::get<int>(listed[0].value) == 0);
  BOOST_TEST(std::string(listed[1].key) == "kept_memory_mib");
  BOOST_TEST(std::get<int>(listed[1].value) == 256);
  BOOST_TEST(std::string(listed[2].key) == "seed");
  BOOST_TEST(std::string(listed[3].key) == "");
  BackendOptions<1> limit;
  BOOST_TEST((limit.set_option("memory_limit_mib", 1) == Error::Ok));
  BOOST_TEST((set_option(kBackend, limit.view()) == Error::Ok), reason());
  {
    Program program;
    program.payload.inputs[0].dims[0].max = 400000;
    const Loaded loaded(program);
    Call call(400000);
    BOOST_TEST((call.run(loaded) != Error::Ok));
    check_reason("exceed the limit of 1048576 bytes");
  }
  for (const char* name : {"memory_limit_mib", "kept_memory_mib"}) {
    BackendOption range;
    std::strcpy(range.key, name);
    range.value = -1;
    BOOST_TEST((set_option(kBackend, {&range, 1}) == Error::InvalidArgument), name);
    check_reason(
        "memory_limit_mib (int, 0 or more, 0 for no limit), kept_memory_mib (int, 0 or "
        "more), seed (int, what the random numbers to come are made from)");
  }
  BackendOptions<1> none;
  BOOST_TEST((none.set_option("memory_limit_mib", 0) == Error::Ok));
  BOOST_TEST((set_option(kBackend, none.view()) == Error::Ok), reason());
}

BOOST_AUTO_TEST_CASE(threads_load_and_run) {
  const Program program;
  const Loaded shared(program);
  std::atomic<int> right{0};
  const auto work = [&] {
    for (int i = 0; i < 10; ++i) {
      const Loaded own(program);
      Call call;
      Call other;
      right += call.run(own) == Error::Ok && call.is_right(2, 0) && other.run(shared) == Error::Ok;
    }
  };
  std::thread thread(work);
  work();
  thread.join();
  BOOST_TEST(right == 20);
}

BOOST_AUTO_TEST_CASE(many_loads_leave_nothing) {
  const Program program;
  for (int i = 0; i < 30; ++i) {
    const Loaded loaded(program);
    Call call;
    BOOST_TEST((call.run(loaded) == Error::Ok), reason());
  }
}

BOOST_AUTO_TEST_SUITE_END()
