#include "cuda/call_graphs.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <exception>
#include <string>

#include "cuda/cuda_device.h"
#include "cuda/driver.h"
#include "shim/run_shim.h"

namespace aoti_plugins::cuda {
namespace {

// Each graph keeps its results, and memory of the driver's.
constexpr size_t kMostGraphs = 32;
// Graphs for different addresses of one caller with the same shapes.
constexpr int kMostBound = 2;

CUdeviceptr address(const void* ptr) {
  return reinterpret_cast<CUdeviceptr>(ptr);
}

/// Whether all inputs are where a graph can read them. Numbers are on the host: the code computes
/// with them, and a graph would keep those of the call that was captured.
bool takes_numbers(ModelCall& call) {
  const auto& inputs = call.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [](AtenTensorHandle handle) {
    const Tensor& tensor = *unwrap(handle);
    return tensor.defined() && tensor.device().type != kCuda;
  });
}

/// Whether all results can be put into the program's memory by work on the GPU, and where.
bool goes_to_device(ModelCall& call, std::vector<void*>* ret) {
  for (size_t i = 0; i < call.results().size(); ++i) {
    const Tensor& result = *unwrap(call.results()[i]);
    void* data = nullptr;
    if (call.place(i, result.ndim(), result.sizes(), &data) != Status::kOk || data == nullptr ||
        result.device().type != kCuda || gpu_of_address(data) != result.device().index) {
      ret->clear();
      return false;
    }
    ret->push_back(data);
  }
  return true;
}

}  // namespace

CallGraphs::Graph::~Graph() {
  if (exec != nullptr) {
    AOTIP_CU_LOG(cuGraphExecDestroy, exec);
  }
}

std::unique_ptr<CallGraphs> CallGraphs::create(Stream& stream, PlacedResults& placed) noexcept {
  try {
    std::unique_ptr<CallGraphs> graphs(new CallGraphs(stream, placed));
    graphs->capturing_ = Stream::create(stream.gpu(), true);
    const bool made = graphs->capturing_ != nullptr && graphs->event_.create() == Status::kOk;
    return made ? std::move(graphs) : nullptr;
  } catch (const std::exception& error) {
    (void)fail("%s", error.what());
    return nullptr;
  }
}

Status CallGraphs::check_fault() noexcept {
  return capturing_ != nullptr ? capturing_->check_fault() : Status::kOk;
}

Status CallGraphs::perform(ModelCall& call) noexcept {
  try {
    return run(call);
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status CallGraphs::perform_plain(ModelCall& call) noexcept {
  AOTIP_RETURN_IF_FAILED(placed_.run_model(call, stream_));
  return call.give_results();
}

/// Frees the memory that graphs take, for what failed may have lacked it.
void CallGraphs::give_up() noexcept {
  ET_LOG(Info, "CUDA graphs: later calls run without, after this failure: %s", last_failure());
  capturing_->wait();
  stream_.wait();
  graphs_.clear();
  capturing_.reset();
}

Status CallGraphs::run(ModelCall& call) {
  if (capturing_ == nullptr) {
    return perform_plain(call);
  }
  Shapes* known = find_shapes(call);
  if (known != nullptr && !known->refused) {
    const Graph* graph = find_graph(call, *known);
    if (graph == nullptr && graphs_.size() < kMostGraphs) {
      graph = capture(call, *known, known->bound >= kMostBound);
    }
    return graph != nullptr ? launch(call, *graph) : perform_plain(call);
  }
  if (known != nullptr || shapes_.size() >= kMostGraphs) {
    return perform_plain(call);
  }
  shapes_.push_back(std::make_unique<Shapes>());
  shapes_.back()->sizes = sizes_;
  if (takes_numbers(call)) {
    ET_LOG(Info, "CUDA graphs: the call takes numbers, it runs without a graph");
    shapes_.back()->refused = true;
    return perform_plain(call);
  }
  const Status status = warm_up(call);
  if (status != Status::kOk) {
    give_up();
  }
  return status;
}

CallGraphs::Shapes* CallGraphs::find_shapes(ModelCall& call) {
  sizes_.clear();
  for (AtenTensorHandle handle : call.inputs()) {
    const Tensor& tensor = *unwrap(handle);
    const int64_t ndim = tensor.defined() ? tensor.ndim() : -1;
    sizes_.push_back(ndim);
    sizes_.insert(sizes_.end(), tensor.sizes(), tensor.sizes() + std::max<int64_t>(ndim, 0));
  }
  for (const auto& shapes : shapes_) {
    if (shapes->sizes == sizes_) {
      return shapes.get();
    }
  }
  return nullptr;
}

const CallGraphs::Graph* CallGraphs::find_graph(ModelCall& call,
                                                const Shapes& shapes) const noexcept {
  const Graph* own = nullptr;
  for (const auto& graph : graphs_) {
    if (graph->shapes != &shapes) {
      continue;
    }
    if (graph->own_buffers) {
      own = graph.get();
      continue;
    }
    bool same = true;
    for (size_t i = 0; i < graph->inputs.size() && same; ++i) {
      same = unwrap(call.inputs()[i])->data() == graph->inputs[i];
    }
    for (size_t i = 0; i < graph->outputs.size() && same; ++i) {
      void* data = nullptr;
      const Tensor& result = *graph->results[i];
      same = call.place(i, result.ndim(), result.sizes(), &data) == Status::kOk &&
             data == graph->outputs[i];
    }
    if (same) {
      return graph.get();
    }
  }
  return own;
}

Status CallGraphs::order(const Stream& first, const Stream& second) noexcept {
  AOTIP_CU(cuEventRecord, event_.handle(), first.handle());
  AOTIP_CU(cuStreamWaitEvent, second.handle(), event_.handle(), 0);
  return Status::kOk;
}

Status CallGraphs::warm_up(ModelCall& call) noexcept {
  AOTIP_RETURN_IF_FAILED(order(stream_, *capturing_));
  active_ = capturing_.get();
  Status status = Status::kOk;
  {
    const StreamScope scope(*capturing_);
    status = placed_.run_model(call, *capturing_);
  }
  active_ = nullptr;
  AOTIP_RETURN_IF_FAILED(order(*capturing_, stream_));
  AOTIP_RETURN_IF_FAILED(status);
  return call.give_results();
}

CallGraphs::Graph* CallGraphs::capture(ModelCall& call, Shapes& shapes, bool own_buffers) {
  auto graph = std::make_unique<Graph>();
  graph->shapes = &shapes;
  graph->own_buffers = own_buffers;
  // The model takes its inputs; those of the call stay for the launch, or to run without a graph.
  const std::vector<AtenTensorHandle> given = call.inputs();
  const Status status = build(call, *graph, own_buffers);
  for (size_t i = 0; i < given.size(); ++i) {
    Tensor::destroy(unwrap(call.inputs()[i]));
    call.inputs()[i] = given[i];
  }
  if (status != Status::kOk) {
    ET_LOG(Info, "CUDA graphs: these calls run without a graph: %s", last_failure());
    shapes.refused = true;
    return nullptr;
  }
  shapes.bound += own_buffers ? 0 : 1;
  graphs_.push_back(std::move(graph));
  return graphs_.back().get();
}

Status CallGraphs::build(ModelCall& call, Graph& graph, bool own_buffers) {
  std::vector<AtenTensorHandle>& inputs = call.inputs();
  const std::vector<AtenTensorHandle> given = inputs;
  std::fill(inputs.begin(), inputs.end(), nullptr);
  for (size_t i = 0; i < given.size(); ++i) {
    const Tensor& from = *unwrap(given[i]);
    const Tensor* source = &from;
    if (own_buffers && from.defined()) {
      const StreamScope scope(*capturing_);
      graph.buffers.emplace_back(Tensor::empty_strided(from.ndim(), from.sizes(), from.strides(),
                                                       from.dtype(), from.device()));
      source = graph.buffers.back().get();
      AOTIP_RETURN_IF_FAILED(source != nullptr ? Status::kOk : Status::kFailed);
    } else if (own_buffers) {
      graph.buffers.emplace_back();
    } else {
      graph.inputs.push_back(from.defined() ? from.data() : nullptr);
    }
    inputs[i] = wrap(source->defined() ? source->alias() : Tensor::undefined());
    AOTIP_RETURN_IF_FAILED(inputs[i] != nullptr ? Status::kOk : Status::kFailed);
  }
  CUgraph recorded = nullptr;
  Status status = record(call, graph, &recorded);
  for (AtenTensorHandle& result : call.results()) {
    graph.results.emplace_back(unwrap(result));
    result = nullptr;
  }
  if (status == Status::kOk) {
    const CUresult code = driver().cuGraphInstantiateWithFlags(&graph.exec, recorded, 0);
    status = code == CUDA_SUCCESS ? Status::kOk : fail_driver("cuGraphInstantiateWithFlags", code);
  }
  if (recorded != nullptr) {
    AOTIP_CU_LOG(cuGraphDestroy, recorded);
  }
  AOTIP_RETURN_IF_FAILED(status);
  return order(*capturing_, stream_);  // its memory is there
}

Status CallGraphs::record(ModelCall& call, Graph& graph, CUgraph* ret) {
  const StreamScope scope(*capturing_);
  AOTIP_CU(cuStreamBeginCapture, capturing_->handle(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  capturing_->capture_for(&stream_);
  active_ = capturing_.get();
  // The program's memory is only for a graph that is bound to all of it.
  const bool placed = !graph.own_buffers && placed_.places_all(call);
  Status status = placed ? placed_.run_model(call, *capturing_) : call.run_model();
  if (status == Status::kOk && !graph.own_buffers && goes_to_device(call, &graph.outputs)) {
    status = call.give_results();
  }
  const std::string reason = status == Status::kOk ? "" : last_failure();
  active_ = nullptr;
  capturing_->capture_for(nullptr);
  const CUresult code = driver().cuStreamEndCapture(capturing_->handle(), ret);
  AOTIP_CHECK(status == Status::kOk, "%s", reason.c_str());
  AOTIP_CHECK(code == CUDA_SUCCESS, "the capture failed: %s", error_text(code));
  return Status::kOk;
}

Status CallGraphs::launch(ModelCall& call, const Graph& graph) noexcept {
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const Tensor& from = *unwrap(call.inputs()[i]);
    if (graph.buffers[i] != nullptr && from.numel() > 0) {
      AOTIP_CU(cuMemcpyDtoDAsync, address(graph.buffers[i]->data()), address(from.data()),
               from.nbytes(), stream_.handle());
    }
  }
  AOTIP_CU(cuGraphLaunch, graph.exec, stream_.handle());
  if (!graph.outputs.empty()) {
    return Status::kOk;
  }
  for (size_t i = 0; i < graph.results.size(); ++i) {
    AOTIP_RETURN_IF_FAILED(call.give(i, *graph.results[i]));
  }
  return Status::kOk;
}

}  // namespace aoti_plugins::cuda
