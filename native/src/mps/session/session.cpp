#include "mps/session/session.h"

#include <cstring>
#include <exception>

#include "mps/memory/storage.h"
#include "mps/session/mps_device.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::mps {
namespace {

// To map smaller inputs for the GPU takes longer than to copy them.
constexpr size_t kWrappedNbytes = size_t{64} << 10;

int64_t numel_of(const ValueMemory& value) {
  int64_t numel = 1;
  for (int64_t d = 0; d < value.ndim; ++d) {
    numel *= value.sizes[d];
  }
  return numel;
}

/// Programs know the memory of the GPU as memory of the CPU: it is one and the same.
Status check_device(const ValueMemory& value) {
  AOTIP_CHECK(value.device.type == kCpu || value.device.type == kMps,
              "the program has it on %s, expected cpu or mps", device_type_name(value.device.type));
  return Status::kOk;
}

}  // namespace

std::unique_ptr<MpsSession> MpsSession::create() noexcept {
  try {
    std::unique_ptr<MpsSession> session(new MpsSession());
    session->stream_ = Stream::create();
    return session->stream_ != nullptr ? std::move(session) : nullptr;
  } catch (const std::exception& error) {
    (void)fail("opening mps:0: %s", error.what());
    return nullptr;
  }
}

MpsSession::~MpsSession() {
  if (stream_ != nullptr) {
    wait();
  }
}

Status MpsSession::enter() noexcept {
  scope_.emplace(*stream_);
  pool_.emplace();
  return Status::kOk;
}

void MpsSession::leave() noexcept {
  pool_.reset();
  scope_.reset();
}

Status MpsSession::begin_call() noexcept {
  stream_->abandon();
  wrapped_.clear();
  return Status::kOk;
}

bool MpsSession::wrap(const ValueMemory& value, const int64_t* strides, size_t nbytes) noexcept {
  if (nbytes < kWrappedNbytes || !value.has_strides(strides)) {
    return false;
  }
  try {
    WrappedMemory memory;
    return memory.wrap(value.data, nbytes) && (wrapped_.push_back(std::move(memory)), true);
  } catch (const std::exception&) {  // out of memory
    return false;
  }
}

Status MpsSession::import_tensor(const ValueMemory& value, const int64_t* strides,
                                 Tensor** ret) noexcept {
  AOTIP_RETURN_IF_FAILED(check_device(value));
  const int64_t numel = numel_of(value);
  AOTIP_CHECK(value.data != nullptr || numel == 0, "it has no memory");
  const size_t nbytes = static_cast<size_t>(numel) * element_nbytes(value.dtype);
  if (wrap(value, strides, nbytes)) {
    *ret = Tensor::borrow(value.data, value.ndim, value.sizes, strides, 0, value.dtype, device());
    return *ret != nullptr ? Status::kOk : Status::kFailed;
  }
  *ret = Tensor::empty_strided(value.ndim, value.sizes, strides, value.dtype, device());
  if (*ret == nullptr) {
    return Status::kFailed;
  }
  // Nothing runs on the GPU yet that could use the memory.
  if (numel > 0 && value.has_strides(strides)) {
    std::memcpy((*ret)->data(), value.data, nbytes);  // the runtime's tensors have no gaps
  } else if (numel > 0) {
    strided_copy_raw((*ret)->data(), strides, value.data, value.strides, value.ndim, value.sizes,
                     element_nbytes(value.dtype));
  }
  return Status::kOk;
}

Status MpsSession::perform(ModelCall& call) noexcept {
  const Status ran = call.run_model();
  // The first fault says more than what came of it.
  AOTIP_RETURN_IF_FAILED(stream_->check_fault());
  AOTIP_RETURN_IF_FAILED(ran);
  AOTIP_RETURN_IF_FAILED(stream_->finish());
  return call.give_results();
}

Status MpsSession::export_tensor(const Tensor& result, const ValueMemory& to) noexcept {
  AOTIP_RETURN_IF_FAILED(check_device(to));
  if (to.has_strides(result.strides())) {
    std::memmove(to.data, result.data(), result.nbytes());
  } else {
    strided_copy_raw(to.data, to.strides, result.data(), result.strides(), to.ndim, to.sizes,
                     result.itemsize());
  }
  return Status::kOk;
}

Status MpsSession::end_call() noexcept {
  wrapped_.clear();
  return stream_->check_fault();
}

void MpsSession::wait() noexcept {
  stream_->abandon();
  wrapped_.clear();
}

KernelClock* MpsSession::kernel_clock() noexcept {
  if (!kernel_buffers_.has_value()) {
    kernel_buffers_.emplace(*stream_);
  }
  return &*kernel_buffers_;
}

std::shared_ptr<ConstantStorage> MpsSession::load_storage(
    const ::executorch::runtime::NamedDataMap& map, const StorageRef& ref, bool writable) {
  return load_mps_storage(map, ref, writable);
}

}  // namespace aoti_plugins::mps
