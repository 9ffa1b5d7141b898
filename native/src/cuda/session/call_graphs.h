#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/driver/backoff.h"
#include "cuda/driver/event.h"
#include "cuda/driver/stream.h"
#include "cuda/session/placed_results.h"
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
/// keeps changing them, one graph with buffers of its own is made. If the caller then stays with
/// some buffers, a graph for these replaces the one that was used longest ago. The number of graphs
/// is bounded. What cannot be captured runs as always; the log says why. A call that memory runs
/// out in frees that of all graphs, which come back some calls later. Calls take turns.
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
    bool warm = false;        // a call has run on the capturing stream
    bool refused = false;     // runs without a graph for good
    bool too_large = false;   // memory runs out without graphs too
    Backoff retry{4};         // after something was short
    int bound = 0;            // graphs for the caller's addresses
    std::vector<void*> seen;  // addresses of the last call that no bound graph served
    int times = 0;            // that they came in a row
    int enough = 4;           // of these for a new graph
  };

  struct Graph {
    ~Graph();
    const Shapes* shapes = nullptr;
    bool own_buffers = false;
    uint64_t last_use = 0;
    std::vector<void*> inputs;         // where it reads, if that is the caller's memory
    std::vector<OwnedTensor> buffers;  // or memory of its own
    std::vector<void*> outputs;        // where it puts the results, if that is the caller's memory
    std::vector<OwnedTensor> results;  // of every launch
    CUgraphExec exec = nullptr;
  };

  CallGraphs(Stream& stream, PlacedResults& placed) : stream_(stream), placed_(placed) {}
  Status run(ModelCall& call, Shapes* shapes);
  Shapes* find_shapes(ModelCall& call);
  Shapes* add_shapes(ModelCall& call);
  bool is_ready() noexcept;
  Status begin(ModelCall& call, Shapes& shapes) noexcept;
  Graph* choose_graph(ModelCall& call, Shapes& shapes);
  Graph* find_graph(ModelCall& call, const Shapes& shapes) const noexcept;
  bool has_settled(ModelCall& call, const Graph& own, Shapes& shapes) const;
  void drop_oldest(Shapes& shapes) noexcept;
  void refuse(Shapes& shapes, uint64_t before) noexcept;
  void say_full() noexcept;
  Status warm_up(ModelCall& call) noexcept;
  Graph* capture(ModelCall& call, Shapes& shapes, bool own_buffers);
  Status build(ModelCall& call, Graph& graph, bool own_buffers);
  Status record(ModelCall& call, Graph& graph, CUgraph* ret);
  Status launch(ModelCall& call, Graph& graph) noexcept;
  Status order(const Stream& first, const Stream& second) noexcept;
  Status perform_plain(ModelCall& call) noexcept;
  void ran_out(Shapes* shapes) noexcept;

  Stream& stream_;
  PlacedResults& placed_;
  std::shared_ptr<Stream> capturing_;  // null while memory is short
  Backoff pause_{8};                   // after memory ran out
  Stream* active_ = nullptr;
  Event event_;
  Sizes sizes_;        // of the call that runs
  uint64_t uses_ = 0;  // of graphs
  bool full_ = false;  // the log says so
  std::vector<std::unique_ptr<Shapes>> shapes_;
  std::vector<std::unique_ptr<Graph>> graphs_;
};

}  // namespace aoti_plugins::cuda
