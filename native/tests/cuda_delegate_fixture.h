#pragma once

// AotiCudaBackend as the runtime sees it, on a stand-in for a compiled model and over a stand-in
// for the driver: what its tests share.

#include <aoti_plugins/delegate.h>
#include <executorch/extension/tensor/tensor_ptr_maker.h>
#include <executorch/runtime/backend/interface.h>
#include <executorch/runtime/core/device_allocator.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "delegate/sha256.h"
#include "fake_cuda/driver_control.h"
#include "named_data.h"
#include "payload_builder.h"

namespace aoti_plugins::testing {

using namespace ::executorch::runtime;

inline std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline BackendInterface* backend() {
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
    payload = fake_payload(blob.size(), sha256(blob.data(), blob.size()));
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

inline std::string reason() {
  return aotip_delegate_last_error();
}

inline void check_reason(const std::string& part) {
  BOOST_TEST(reason().find(part) != std::string::npos,
             "'" << reason() << "' lacks '" << part << "'");
}

/// A delegate that its class has loaded; destroyed with this object.
class LoadedDelegate {
 public:
  explicit LoadedDelegate(BackendInterface* of) : backend_(of) {}
  ~LoadedDelegate() {
    if (handle_ != nullptr) {
      backend_->destroy(handle_);
    }
  }
  LoadedDelegate(const LoadedDelegate&) = delete;
  LoadedDelegate& operator=(const LoadedDelegate&) = delete;

  bool ok() const { return handle_ != nullptr; }

  Error run(EValue& x, EValue& y, EventTracer* tracer = nullptr) const {
    BackendExecutionContext context(tracer);
    EValue* args[] = {&x, &y};
    return backend_->execute(context, handle_, Span<EValue*>(args, 2));
  }

 protected:
  BackendInterface* backend_;
  DelegateHandle* handle_ = nullptr;
};

/// A delegate of ours.
class Loaded : public LoadedDelegate {
 public:
  explicit Loaded(const Program& program, const std::string& target_device = "",
                  Span<BackendOption> options = {}, const char* method = "forward")
      : LoadedDelegate(backend()),
        bytes_(PayloadBuilder()
                   .payload(program.payload)
                   .encode(kPayloadVersion, program.payload.flags)),
        device_(target_device) {
    BackendInitContext context(nullptr, nullptr, method, &program.data,
                               Span<const BackendOption>(options.data(), options.size()));
    FreeableBuffer processed(bytes_.data(), bytes_.size(), nullptr);
    aotip_delegate_clear_error();
    const CompileSpec spec{"target_device", {device_.data(), device_.size()}};
    const auto result =
        backend_->init(context, &processed, ArrayRef<CompileSpec>(&spec, device_.empty() ? 0 : 1));
    handle_ = result.ok() ? result.get() : nullptr;
  }

 private:
  std::vector<uint8_t> bytes_;
  std::string device_;
};

/// Host arguments of the model for `rows` rows of ones.
struct Call {
  ::executorch::extension::TensorPtr x;
  ::executorch::extension::TensorPtr y;
  EValue args[2];

  explicit Call(int32_t rows = 2)
      : x(::executorch::extension::make_tensor_ptr(
            {rows, 3}, std::vector<float>(static_cast<size_t>(rows) * 3, 1.0f))),
        y(::executorch::extension::make_tensor_ptr({8, 3}, std::vector<float>(24, -9.0f))) {
    args[0] = EValue(*x);
    args[1] = EValue(*y);
  }
  Error run(const Loaded& loaded, EventTracer* tracer = nullptr) {
    return loaded.run(args[0], args[1], tracer);
  }
  std::vector<float> result() const {
    const float* data = y->const_data_ptr<float>();
    return std::vector<float>(data, data + y->numel());
  }
};

inline std::vector<float> expected(int32_t rows, float calls) {
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
  explicit DeviceMemory(size_t nbytes, etensor::DeviceIndex gpu_index = 0)
      : allocator(get_device_allocator(etensor::DeviceType::CUDA)),
        gpu(gpu_index),
        data(allocator->allocate(nbytes, gpu).get()) {}
  ~DeviceMemory() { allocator->deallocate(data, gpu); }
  DeviceAllocator* allocator;
  etensor::DeviceIndex gpu;
  void* data;
};

/// Runs the model on ones in `x` with the result in `to`, both on the stand-in GPU; checks the
/// result and returns how many copies on the GPU the call took.
inline size_t run_on_gpu(const LoadedDelegate& loaded, int32_t rows, void* x, void* to, float calls,
                         EventTracer* tracer = nullptr) {
  DeviceAllocator* allocator = get_device_allocator(etensor::DeviceType::CUDA);
  const size_t size = static_cast<size_t>(rows) * 12;
  const std::vector<float> ones(static_cast<size_t>(rows) * 3, 1.0f);
  BOOST_TEST((allocator->copy_host_to_device(x, ones.data(), size, 0) == Error::Ok));
  auto x_tensor = ::executorch::extension::from_blob(x, {rows, 3});
  auto y_tensor = ::executorch::extension::from_blob(to, {rows, 3});
  EValue args[] = {EValue(*x_tensor), EValue(*y_tensor)};
  const size_t copies = fake().calls("cuMemcpyDtoDAsync_v2");
  BOOST_TEST_REQUIRE((loaded.run(args[0], args[1], tracer) == Error::Ok), reason());
  const size_t taken = fake().calls("cuMemcpyDtoDAsync_v2") - copies;
  std::vector<float> result(static_cast<size_t>(rows) * 3);
  BOOST_TEST((allocator->copy_device_to_host(result.data(), to, size, 0) == Error::Ok));
  BOOST_TEST(result == expected(rows, calls), boost::test_tools::per_element());
  return taken;
}

}  // namespace aoti_plugins::testing
