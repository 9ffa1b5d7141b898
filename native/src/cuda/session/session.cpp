#include "cuda/session/session.h"

#include <algorithm>
#include <cstring>
#include <exception>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/own_functions.h"
#include "cuda/memory/device_storage.h"
#include "cuda/memory/kernel_copy.h"
#include "cuda/ranks/rank_watch.h"
#include "cuda/session/options.h"
#include "delegate/call_part.h"
#include "ranks/world.h"
#include "slim/strided_copy.h"

namespace aoti_plugins::cuda {
namespace {

// Larger inputs and outputs gain nothing from being copied twice.
constexpr size_t kStagedNbytes = size_t{4} << 20;

int64_t numel_of(const ValueMemory& value) {
  int64_t numel = 1;
  for (int64_t d = 0; d < value.ndim; ++d) {
    numel *= value.sizes[d];
  }
  return numel;
}

CUdeviceptr address(const void* ptr) {
  return reinterpret_cast<CUdeviceptr>(ptr);
}

/// A tensor over the program's memory.
Tensor* borrow(const ValueMemory& value, Device device) {
  return Tensor::borrow(value.data, value.ndim, value.sizes, value.strides, 0, value.dtype, device);
}

}  // namespace

std::unique_ptr<CudaSession> CudaSession::create(int32_t gpu, uint32_t flags, bool graphs,
                                                 bool in_order) noexcept {
  try {
    const ContextGuard guard;
    std::unique_ptr<CudaSession> session(new CudaSession());
    session->gpu_ = gpu;
    session->tf32_ = {(flags & kTf32Matmul) != 0, (flags & kTf32Convolution) != 0};
    session->is_for_ranks_ = (flags & kRanks) != 0;
    session->stream_ = Stream::create(gpu);
    if (session->stream_ == nullptr) {
      return nullptr;
    }
    if (graphs) {
      session->graphs_ = CallGraphs::create(*session->stream_, session->placed_);
      if (session->graphs_ == nullptr) {
        return nullptr;
      }
    }
    if (in_order && session->turn_.emplace().create() != Status::kOk) {
      return nullptr;
    }
    session->inputs_.emplace(*session->stream_);
    return session->inputs_read_.create() == Status::kOk ? std::move(session) : nullptr;
  } catch (const std::exception& error) {
    (void)fail("opening cuda:%d: %s", gpu, error.what());
    return nullptr;
  }
}

CudaSession::~CudaSession() {
  if (stream_ == nullptr) {
    return;
  }
  const ContextGuard guard;
  (void)use_gpu(gpu_);
  close();
  modules_.unload_all();
  inputs_read_.reset();
  turn_.reset();
  for (LateOutputs& one : late_) {
    one.there.reset();
  }
  kernel_events_.reset();
  followed_.reset();
  inputs_.reset();
}

Status CudaSession::enter() noexcept {
  context_.emplace();
  if (use_gpu(gpu_) != Status::kOk) {
    context_.reset();
    return Status::kFailed;
  }
  scope_.emplace(*stream_);
  modules_scope_.emplace(modules_);
  tf32_scope_.emplace(tf32_);
  return Status::kOk;
}

void CudaSession::leave() noexcept {
  if (is_for_ranks_) {
    leave_rank_call();
  }
  tf32_scope_.reset();
  modules_scope_.reset();
  scope_.reset();
  context_.reset();
}

Status CudaSession::begin_call() noexcept {
  if (inputs_in_flight_) {
    AOTIP_CU(cuEventSynchronize, inputs_read_.handle());
    inputs_in_flight_ = false;
  }
  if (is_for_ranks_) {
    AOTIP_RETURN_IF_FAILED(check_ranks());
  }
  host_outputs_.clear();
  outputs_in_flight_ = false;
  later_ = nullptr;
  use_default_stream(false);
  if (is_for_ranks_) {
    AOTIP_RETURN_IF_FAILED(begin_rank_call(gpu_, stream_->handle()));
  }
  const Status earlier = check_faults();
  AOTIP_CHECK(earlier == Status::kOk, "an earlier call: %s", last_failure());
  if (turn_.has_value()) {
    // The legacy default stream waits for all others, and they for it.
    AOTIP_CU(cuEventRecord, turn_->handle(), nullptr);
  }
  if (output_wanted_ > output_memory_.nbytes()) {
    AOTIP_RETURN_IF_FAILED(output_memory_.allocate(output_wanted_));
  }
  output_used_ = 0;
  output_wanted_ = 0;
  return inputs_->reset();
}

void CudaSession::use_default_stream(bool wanted) noexcept {
  stream_->use_default_stream(wanted);
  current_stream().handle = stream_->handle();
}

Status CudaSession::import_tensor(const ValueMemory& value, const int64_t* strides,
                                  Tensor** ret) noexcept {
  if (numel_of(value) == 0) {
    *ret = Tensor::empty_strided(value.ndim, value.sizes, strides, value.dtype, device());
    return *ret != nullptr ? Status::kOk : Status::kFailed;
  }
  AOTIP_CHECK(value.data != nullptr, "it has no memory");
  const int32_t gpu = gpu_of_address(value.data);
  if (value.device.type != kCuda && gpu < 0) {
    return import_from_host(value, strides, ret);
  }
  AOTIP_RETURN_IF_FAILED(check_gpu(value, gpu));
  use_default_stream(!uses_own_streams());
  return import_from_device(value, strides, ret);
}

/// Memory that the program wants on a GPU must be there, and on this one.
Status CudaSession::check_gpu(const ValueMemory& value, int32_t gpu) const noexcept {
  AOTIP_CHECK(gpu >= 0, "it is in memory of the cpu, expected cuda:%d", gpu_);
  AOTIP_CHECK(gpu == gpu_, "it is on cuda:%d, expected cuda:%d", gpu, gpu_);
  AOTIP_CHECK(value.device.type != kCuda || value.device.index == gpu_,
              "the program says that it is on cuda:%d, expected cuda:%d", value.device.index, gpu_);
  return Status::kOk;
}

Status CudaSession::import_from_device(const ValueMemory& value, const int64_t* strides,
                                       Tensor** ret) noexcept {
  if (value.has_strides(strides)) {
    *ret = Tensor::borrow(value.data, value.ndim, value.sizes, strides, 0, value.dtype, device());
    return *ret != nullptr ? Status::kOk : Status::kFailed;
  }
  Tensor* source = borrow(value, device());
  Tensor* copy = Tensor::empty_strided(value.ndim, value.sizes, strides, value.dtype, device());
  Status status =
      source != nullptr && copy != nullptr ? cuda_device().copy(*copy, *source) : Status::kFailed;
  Tensor::destroy(source);
  if (status != Status::kOk) {
    Tensor::destroy(copy);
    return status;
  }
  *ret = copy;
  return Status::kOk;
}

Status CudaSession::import_from_host(const ValueMemory& value, const int64_t* strides,
                                     Tensor** ret) noexcept {
  const size_t itemsize = element_nbytes(value.dtype);
  const size_t nbytes = static_cast<size_t>(numel_of(value)) * itemsize;
  if (nbytes > kStagedNbytes) {
    Tensor* copy = Tensor::empty_strided(value.ndim, value.sizes, strides, value.dtype, device());
    Tensor* source = borrow(value, Device{});
    const Status status =
        copy != nullptr && source != nullptr ? cuda_device().copy(*copy, *source) : Status::kFailed;
    Tensor::destroy(source);
    if (status != Status::kOk) {
      Tensor::destroy(copy);
      return status;
    }
    *ret = copy;
    return Status::kOk;
  }
  Staging::Piece piece;
  AOTIP_RETURN_IF_FAILED(inputs_->take(nbytes, &piece));
  if (value.has_strides(strides)) {
    std::memcpy(piece.host, value.data, nbytes);  // the runtime's tensors have no gaps
  } else {
    strided_copy_raw(piece.host, strides, value.data, value.strides, value.ndim, value.sizes,
                     itemsize);
  }
  *ret = Tensor::borrow(piece.device, value.ndim, value.sizes, strides, 0, value.dtype, device());
  return *ret != nullptr ? Status::kOk : Status::kFailed;
}

Status CudaSession::inputs_done() noexcept {
  if (inputs_->empty()) {
    return Status::kOk;
  }
  AOTIP_RETURN_IF_FAILED(inputs_->to_device(later_ != nullptr));
  inputs_in_flight_ = true;
  if (later_ != nullptr) {  // the next call need not wait for more than this copy
    AOTIP_CU(cuEventRecord, inputs_read_.handle(), stream_->handle());
  }
  return Status::kOk;
}

void* CudaSession::stream() const noexcept {
  const Stream* other = graphs_ != nullptr ? graphs_->active() : nullptr;
  return other != nullptr ? other->handle() : stream_->handle();
}

void* CudaSession::plain_function(const char* name) const noexcept {
  return find_own_function(name);
}

Status CudaSession::perform(ModelCall& call) noexcept {
  const bool watched = kernel_events_.has_value() && kernel_events_->watches();
  const bool by_graph = graphs_ != nullptr && !watched;
  const Status status = by_graph ? graphs_->perform(call) : perform_plain(call);
  if (watched) {
    kernel_events_->release();
  }
  if (status == Status::kOk || !is_for_ranks_) {
    return status;
  }
  // Others may have got what this rank has sent, and wait for more: nothing that follows is right.
  ranks::World* const world = ranks::world();
  return world != nullptr ? end_for_last_failure(*world) : status;
}

Status CudaSession::perform_plain(ModelCall& call) noexcept {
  AOTIP_RETURN_IF_FAILED(placed_.run_model(call, *stream_));
  return call.give_results();
}

Status CudaSession::find_faults() noexcept {
  AOTIP_RETURN_IF_FAILED(stream_->check_fault());
  return graphs_ != nullptr ? graphs_->check_fault() : Status::kOk;
}

/// Fails, once, for what work that is done found wrong. Which call that was of is not known, so
/// those that are begun and not finished fail, too.
Status CudaSession::check_faults() noexcept {
  const Status status = find_faults();
  for (size_t i = 0; status != Status::kOk && i < late_count_; ++i) {
    try {
      late_[(first_late_ + i) % late_.size()].failure = last_failure();
    } catch (const std::exception&) {
      return status;  // no memory for more than this failure
    }
  }
  return status;
}

Status CudaSession::export_tensor(const Tensor& result, const ValueMemory& to) noexcept {
  if (result.data() == to.data && to.has_strides(result.strides())) {
    return Status::kOk;  // the model computed it there
  }
  const int32_t gpu = gpu_of_address(to.data);
  const bool on_device = to.device.type == kCuda || gpu >= 0;
  if (!on_device && result.device().type == kCuda) {
    return export_to_host(result, to);
  }
  if (on_device) {
    AOTIP_RETURN_IF_FAILED(check_gpu(to, gpu));
  }
  Tensor* target = borrow(to, on_device ? device() : Device{});
  if (target == nullptr) {
    return Status::kFailed;
  }
  const Status status =
      on_device ? cuda_device().copy(*target, result) : strided_copy(*target, result);
  Tensor::destroy(target);
  return status;
}

Status CudaSession::export_to_host(const Tensor& result, const ValueMemory& to) noexcept {
  const size_t nbytes = result.nbytes();
  const void* from = result.data();
  Tensor* in_order = nullptr;  // the elements in the order that the program wants
  if (!to.has_strides(result.strides())) {
    in_order = Tensor::empty_strided(to.ndim, to.sizes, to.strides, to.dtype, device());
    if (in_order == nullptr || cuda_device().copy(*in_order, result) != Status::kOk) {
      Tensor::destroy(in_order);
      return Status::kFailed;
    }
    from = in_order->data();
  }
  void* dst = to.data;
  const Status staged =
      later_ != nullptr ? stage_late_output(to, nbytes, &dst) : stage_output(to, nbytes, &dst);
  const Status status = staged == Status::kOk ? copy_to_host(dst, from, nbytes) : Status::kFailed;
  Tensor::destroy(in_order);  // its memory is reused in the stream's order
  return status;
}

/// Gives the stream the copy of an output to do, to `dst`, page-locked where it comes later.
Status CudaSession::copy_to_host(void* dst, const void* from, size_t nbytes) noexcept {
  bool done = false;
  if (later_ != nullptr) {
    AOTIP_RETURN_IF_FAILED(copy_by_kernel(gpu_, dst, from, nbytes, &done));
  }
  const CUresult code =
      done ? CUDA_SUCCESS
           : driver().cuMemcpyDtoHAsync(dst, address(from), nbytes, stream_->handle());
  AOTIP_CHECK(code == CUDA_SUCCESS, "copying %zu bytes to the host failed: %s", nbytes,
              error_text(code));
  return Status::kOk;
}

/// Finds page-locked memory for an output, of which the end of the call takes it. Without such
/// memory, `*ret_staged` stays the program's.
Status CudaSession::stage_output(const ValueMemory& to, size_t nbytes, void** ret_staged) noexcept {
  output_wanted_ += nbytes <= kStagedNbytes ? nbytes : 0;
  if (nbytes > kStagedNbytes || output_memory_.nbytes() - output_used_ < nbytes) {
    outputs_in_flight_ = true;
    return Status::kOk;
  }
  char* const staged = output_memory_.data() + output_used_;
  try {
    host_outputs_.push_back({to.data, staged, nbytes});
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
  output_used_ += nbytes;
  *ret_staged = staged;
  return Status::kOk;
}

/// Finds page-locked memory for an output that comes later.
Status CudaSession::stage_late_output(const ValueMemory& to, size_t nbytes,
                                      void** ret_staged) noexcept {
  AOTIP_CHECK(nbytes <= kMostLateNbytes,
              "an output of %zu bytes, more than %zu, in host memory cannot come later", nbytes,
              kMostLateNbytes);
  try {
    const size_t index = later_->outputs.size();
    if (later_->memory.size() == index) {
      later_->memory.emplace_back();
    }
    PinnedMemory& memory = later_->memory[index];
    if (memory.nbytes() < nbytes) {
      AOTIP_RETURN_IF_FAILED(memory.allocate(nbytes));
    }
    later_->outputs.push_back({to.data, memory.data(), nbytes});
    *ret_staged = memory.data();
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status CudaSession::end_call() noexcept {
  if (is_for_ranks_) {
    AOTIP_RETURN_IF_FAILED(end_rank_call(gpu_, stream_->handle()));
  }
  if (later_ != nullptr) {
    AOTIP_CU(cuEventRecord, later_->there.handle(), stream_->handle());
    ++late_count_;
    return Status::kOk;
  }
  if (!host_outputs_.empty() || outputs_in_flight_) {
    const Status done = stream_->synchronize();
    if (is_for_ranks_) {
      AOTIP_RETURN_IF_FAILED(check_ranks());  // a rank that ended may be why it failed
    }
    AOTIP_RETURN_IF_FAILED(done);
    inputs_in_flight_ = false;
    AOTIP_RETURN_IF_FAILED(check_faults());
    for (const HostOutput& output : host_outputs_) {
      std::memcpy(output.dst, output.staged, output.nbytes);
    }
  } else if (inputs_in_flight_) {
    AOTIP_CU(cuEventRecord, inputs_read_.handle(), stream_->handle());
  }
  return Status::kOk;
}

Status CudaSession::outputs_later() noexcept {
  AOTIP_CHECK(!is_for_ranks_,
              "calls of a program for several ranks cannot be begun and finished "
              "apart");
  AOTIP_CHECK(late_count_ < late_.size(), "%zu calls are begun already: finish one first",
              late_count_);
  LateOutputs& free_one = late_[(first_late_ + late_count_) % late_.size()];
  if (free_one.there.handle() == nullptr) {
    AOTIP_RETURN_IF_FAILED(free_one.there.create());
  }
  free_one.outputs.clear();
  free_one.failure.clear();
  later_ = &free_one;
  return Status::kOk;
}

Status CudaSession::finish_call() noexcept {
  AOTIP_CHECK(late_count_ > 0, "no call is begun");
  LateOutputs& oldest = late_[first_late_];
  const CUresult waited = driver().cuEventSynchronize(oldest.there.handle());
  const Status faults = check_faults();
  first_late_ = (first_late_ + 1) % late_.size();
  --late_count_;
  AOTIP_CHECK(waited == CUDA_SUCCESS, "waiting for a call failed: %s", error_text(waited));
  AOTIP_RETURN_IF_FAILED(faults);
  AOTIP_CHECK(oldest.failure.empty(), "%s", oldest.failure.c_str());
  for (const HostOutput& output : oldest.outputs) {
    std::memcpy(output.dst, output.staged, output.nbytes);
  }
  return Status::kOk;
}

void CudaSession::wait() noexcept {
  stream_->wait();
  inputs_in_flight_ = false;
}

KernelClock* CudaSession::kernel_clock() noexcept {
  if (!kernel_events_.has_value()) {
    kernel_events_.emplace(*stream_);
  }
  return &*kernel_events_;
}

void CudaSession::close() noexcept {
  wait();
  graphs_.reset();
}

Status CudaSession::follow(DeviceSession& other) noexcept {
  const CUstream before = static_cast<CudaSession&>(other).stream_->handle();
  if (before == stream_->handle()) {
    return Status::kOk;
  }
  if (followed_.handle() == nullptr) {
    AOTIP_RETURN_IF_FAILED(followed_.create());
  }
  AOTIP_CU(cuEventRecord, followed_.handle(), before);
  AOTIP_CU(cuStreamWaitEvent, stream_->handle(), followed_.handle(), 0);
  return Status::kOk;
}

std::shared_ptr<ConstantStorage> CudaSession::load_storage(
    const ::executorch::runtime::NamedDataMap& map, const StorageRef& ref, bool) {
  if (!uploader_.has_value()) {
    uploader_.emplace(gpu_);
  }
  return load_device_storage(map, ref, gpu_, *uploader_);
}

void CudaSession::expect(const std::vector<std::string>& symbols) noexcept {
  early_libraries_.emplace(symbols, gpu_);
}

Status CudaSession::loaded() noexcept {
  const Status status = uploader_.has_value() ? uploader_->finish() : Status::kOk;
  uploader_.reset();
  return status;
}

}  // namespace aoti_plugins::cuda
