#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/event.h"
#include "cuda/placed_results.h"
#include "cuda/stream.h"
#include "delegate/delegate_device.h"
#include "slim/status.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {

/// CUDA graphs of one delegate's calls: what a call gives the GPU to do, captured once per shapes
/// of its inputs, and then launched as a whole.
///
/// The first call with some shapes runs as always, so that kernels are loaded and memory is there;
/// the second one is captured. A graph is bound to the addresses of inputs, and of outputs on the
/// device, so that nothing is copied where the caller uses its buffers again; for a caller who
/// keeps changing them, one graph with buffers of its own is made. The number of graphs is bounded.
/// What cannot be captured runs as always; the log says why. After a failed call with new shapes
/// all graphs and their memory are given up. Calls take turns.
class CallGraphs {
 public:
  /// Null, with a reason, when it fails. Graphs are launched on `stream`. Both outlive them.
  static std::unique_ptr<CallGraphs> create(Stream& stream, PlacedResults& placed) noexcept;

  /// Runs a call, whose inputs are on their way on the stream.
  Status perform(ModelCall& call) noexcept;

  /// The stream that a call is captured or warmed up on now; null where there is none.
  Stream* active() const noexcept { return active_; }

  /// As `Stream::check_fault()`, for what graphs found.
  Status check_fault() noexcept;

  CallGraphs(const CallGraphs&) = delete;
  CallGraphs& operator=(const CallGraphs&) = delete;

 private:
  /// The sizes of all inputs, one after the other, each with its rank before it.
  using Sizes = std::vector<int64_t>;

  struct Shapes {
    Sizes sizes;
    bool refused = false;  // cannot be captured
    int bound = 0;         // graphs for the caller's addresses
  };

  struct Graph {
    ~Graph();
    const Shapes* shapes = nullptr;
    bool own_buffers = false;
    std::vector<void*> inputs;         // where it reads, if that is the caller's memory
    std::vector<OwnedTensor> buffers;  // or memory of its own
    std::vector<void*> outputs;        // where it puts the results, if that is the caller's memory
    std::vector<OwnedTensor> results;  // of every launch
    CUgraphExec exec = nullptr;
  };

  CallGraphs(Stream& stream, PlacedResults& placed) : stream_(stream), placed_(placed) {}
  Status run(ModelCall& call);
  Shapes* find_shapes(ModelCall& call);
  const Graph* find_graph(ModelCall& call, const Shapes& shapes) const noexcept;
  Status warm_up(ModelCall& call) noexcept;
  Graph* capture(ModelCall& call, Shapes& shapes, bool own_buffers);
  Status build(ModelCall& call, Graph& graph, bool own_buffers);
  Status record(ModelCall& call, Graph& graph, CUgraph* ret);
  Status launch(ModelCall& call, const Graph& graph) noexcept;
  Status order(const Stream& first, const Stream& second) noexcept;
  Status perform_plain(ModelCall& call) noexcept;
  void give_up() noexcept;

  Stream& stream_;
  PlacedResults& placed_;
  std::shared_ptr<Stream> capturing_;  // null: given up
  Stream* active_ = nullptr;
  Event event_;
  Sizes sizes_;  // of the call that runs
  std::vector<std::unique_ptr<Shapes>> shapes_;
  std::vector<std::unique_ptr<Graph>> graphs_;
};

}  // namespace aoti_plugins::cuda
