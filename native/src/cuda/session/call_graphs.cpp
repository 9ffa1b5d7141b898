#include "cuda/session/call_graphs.h"

#include <executorch/runtime/platform/log.h>

#include <algorithm>
#include <exception>
#include <string>

#include "cuda/driver/cuda_device.h"
#include "cuda/driver/driver.h"
#include "cuda/driver/shortage.h"
#include "cuda/ranks/sends_ahead.h"
#include "shim/run_shim.h"

namespace aoti_plugins::cuda {
namespace {

// Each graph keeps its results, and memory of the driver's.
constexpr size_t kMostGraphs = 32;
// Graphs for different addresses of one caller with the same shapes.
constexpr int kMostBound = 2;
constexpr int kMostTimes = 1 << 20;

/// Whether all inputs are where a graph can read them. Numbers are on the host: the code computes
/// with them, and a graph would keep those of the call that was captured.
bool takes_numbers(ModelCall& call) {
  const auto& inputs = call.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [](AtenTensorHandle handle) {
    const Tensor& tensor = *unwrap(handle);
    return tensor.defined() && tensor.device().type != kCuda;
  });
}

/// Where work on the GPU can put a result of the call in the program's memory; null if it cannot.
void* place_on_device(ModelCall& call, size_t index, const Tensor& result) {
  void* data = nullptr;
  const bool there = call.place(index, result.ndim(), result.sizes(), &data) == Status::kOk &&
                     data != nullptr && result.device().type == kCuda &&
                     gpu_of_address(data) == result.device().index;
  return there ? data : nullptr;
}

/// Adds where all results of the call go; none, and false, if some of them cannot be put there by
/// work on the GPU. `result_at(i)` is a tensor like result `i`.
template <typename ResultAt>
bool add_places(ModelCall& call, const ResultAt& result_at, std::vector<void*>* ret) {
  const size_t before = ret->size();
  for (size_t i = 0; i < call.results().size(); ++i) {
    void* data = place_on_device(call, i, result_at(i));
    if (data == nullptr) {
      ret->resize(before);
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
    Shapes* shapes = find_shapes(call);
    const uint64_t before = shortages();
    const Status status = run(call, shapes);
    if (status != Status::kOk && shortages() != before) {
      ran_out(shapes);
    }
    return status;
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

Status CallGraphs::perform_plain(ModelCall& call) noexcept {
  AOTIP_RETURN_IF_FAILED(placed_.run_model(call, stream_));
  return call.give_results();
}

Status CallGraphs::run(ModelCall& call, Shapes* shapes) {
  if (!is_ready() || shapes == nullptr) {
    return perform_plain(call);
  }
  if (!shapes->warm) {
    const bool may_try = !shapes->refused && shapes->retry.may_try();
    return may_try ? begin(call, *shapes) : perform_plain(call);
  }
  Graph* graph = choose_graph(call, *shapes);
  return graph != nullptr ? launch(call, *graph) : perform_plain(call);
}

/// Whether there is a stream to capture on. It is made again some calls after memory ran out.
bool CallGraphs::is_ready() noexcept {
  if (capturing_ == nullptr && pause_.may_try()) {
    capturing_ = Stream::create(stream_.gpu(), true);
    if (capturing_ == nullptr) {
      pause_.failed();
    }
  }
  return capturing_ != nullptr;
}

/// Frees the memory that graphs take, for the call that just failed may have lacked it. They come
/// back after a pause. Sizes that fail in the pause too do not take them away again.
void CallGraphs::ran_out(Shapes* shapes) noexcept {
  if (capturing_ == nullptr && shapes != nullptr) {
    shapes->too_large = true;
    shapes->retry.failed();
  }
  if (capturing_ == nullptr || (shapes != nullptr && shapes->too_large)) {
    return;
  }
  ET_LOG(Info, "CUDA graphs: memory ran out, so theirs is freed and the next calls run without: %s",
         last_failure());
  capturing_->wait();
  stream_.wait();
  graphs_.clear();
  capturing_.reset();
  for (const auto& other : shapes_) {
    other->warm = false;
    other->bound = 0;
  }
  pause_.failed();
}

/// Refuses sizes that a call failed with; not for good where something was short, by `before`.
void CallGraphs::refuse(Shapes& shapes, uint64_t before) noexcept {
  const bool again = shortages() != before;
  ET_LOG(Info, "CUDA graphs: calls with these sizes run without a graph%s: %s",
         again ? " for now" : "", last_failure());
  if (again) {
    shapes.retry.failed();
  }
  shapes.refused = !again;
}

void CallGraphs::say_full() noexcept {
  if (!full_) {
    ET_LOG(Info,
           "CUDA graphs: a delegate keeps at most %zu graphs, for as many sizes of inputs; calls "
           "that need more run without a graph",
           kMostGraphs);
  }
  full_ = true;
}

/// What is known of the sizes of a call; null when there are too many.
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
  return add_shapes(call);
}

CallGraphs::Shapes* CallGraphs::add_shapes(ModelCall& call) {
  if (shapes_.size() >= kMostGraphs) {
    say_full();
    return nullptr;
  }
  shapes_.push_back(std::make_unique<Shapes>());
  Shapes& added = *shapes_.back();
  added.sizes = sizes_;
  if (takes_numbers(call)) {
    ET_LOG(Info, "CUDA graphs: the call takes numbers, it runs without a graph");
    added.refused = true;
  }
  return &added;
}

/// A call with sizes that have not run on the capturing stream yet.
Status CallGraphs::begin(ModelCall& call, Shapes& shapes) noexcept {
  const uint64_t before = shortages();
  const Status status = warm_up(call);
  shapes.warm = status == Status::kOk;
  if (status != Status::kOk) {
    refuse(shapes, before);
  } else {
    shapes.too_large = false;
  }
  return status;
}

/// The graph for a call, captured where need be; null if it runs without.
CallGraphs::Graph* CallGraphs::choose_graph(ModelCall& call, Shapes& shapes) {
  Graph* graph = find_graph(call, shapes);
  const bool moves = graph != nullptr && graph->own_buffers;
  if (shapes.refused || (graph != nullptr && !moves) || !shapes.retry.may_try() ||
      (moves && !has_settled(call, *graph, shapes))) {
    return graph;
  }
  if (graphs_.size() >= kMostGraphs && !moves) {
    say_full();
    return graph;
  }
  Graph* made = capture(call, shapes, !moves && shapes.bound >= kMostBound);
  if (made != nullptr && moves) {
    drop_oldest(shapes);
  }
  return made != nullptr ? made : graph;
}

/// The graph that is bound to the addresses of a call, or else the one with buffers of its own.
CallGraphs::Graph* CallGraphs::find_graph(ModelCall& call, const Shapes& shapes) const noexcept {
  Graph* own = nullptr;
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

/// Whether a caller whom no bound graph serves came with the same buffers often enough for a new
/// one. Each time it takes twice as many calls, so that one who never stays causes few captures.
bool CallGraphs::has_settled(ModelCall& call, const Graph& own, Shapes& shapes) const {
  std::vector<void*> addresses;
  for (AtenTensorHandle handle : call.inputs()) {
    addresses.push_back(unwrap(handle)->data());
  }
  add_places(call, [&](size_t i) -> const Tensor& { return *own.results[i]; }, &addresses);
  shapes.times = addresses == shapes.seen ? shapes.times + 1 : 1;
  shapes.seen = std::move(addresses);
  if (shapes.times < shapes.enough) {
    return false;
  }
  shapes.times = 0;
  shapes.enough = std::min(2 * shapes.enough, kMostTimes);
  return true;
}

/// Drops the bound graph that was used longest ago. It may still run: its memory is the capturing
/// stream's, and what uses that next comes after it.
void CallGraphs::drop_oldest(Shapes& shapes) noexcept {
  auto oldest = graphs_.end();
  for (auto it = graphs_.begin(); it != graphs_.end(); ++it) {
    const Graph& graph = **it;
    if (graph.shapes == &shapes && !graph.own_buffers &&
        (oldest == graphs_.end() || graph.last_use < (*oldest)->last_use)) {
      oldest = it;
    }
  }
  if (oldest != graphs_.end()) {
    graphs_.erase(oldest);
    --shapes.bound;
  }
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
  const uint64_t before = shortages();
  const Status status = build(call, *graph, own_buffers);
  for (size_t i = 0; i < given.size(); ++i) {
    Tensor::destroy(unwrap(call.inputs()[i]));
    call.inputs()[i] = given[i];
  }
  if (status != Status::kOk) {
    refuse(shapes, before);
    return nullptr;
  }
  shapes.bound += own_buffers ? 0 : 1;
  graph->last_use = ++uses_;
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
  const auto result_at = [&](size_t i) -> const Tensor& { return *unwrap(call.results()[i]); };
  Status status = Status::kOk;
  if (placed) {
    status = placed_.run_model(call, *capturing_);
  } else {
    begin_run_of_sums();
    status = call.run_model();
  }
  if (status == Status::kOk && !graph.own_buffers && add_places(call, result_at, &graph.outputs)) {
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

Status CallGraphs::launch(ModelCall& call, Graph& graph) noexcept {
  graph.last_use = ++uses_;
  for (size_t i = 0; i < graph.buffers.size(); ++i) {
    const Tensor& from = *unwrap(call.inputs()[i]);
    if (graph.buffers[i] != nullptr && from.numel() > 0) {
      AOTIP_CU(cuMemcpyDtoDAsync, device_address(graph.buffers[i]->data()),
               device_address(from.data()), from.nbytes(), stream_.handle());
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
