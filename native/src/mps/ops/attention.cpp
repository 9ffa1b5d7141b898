#include "mps/ops/attention.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <string>

#include "mps/driver/kernel.h"
#include "mps/driver/kernel_arguments.h"
#include "mps/kernels/sources.h"
#include "mps/ops/metal_types.h"
#include "ops/operand.h"

namespace aoti_plugins::mps {
namespace {

// Must match kernels/attention_tiled.metal and kernels/attention_rows.metal.
constexpr int64_t kTileRows = 32;
constexpr int64_t kTileMaxWidth = 128;
constexpr size_t kTileThreads = 128;
constexpr size_t kRowsThreads = 256;

constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

long long ll(int64_t value) {
  return static_cast<long long>(value);
}

/// Sizes and strides of a tensor with its leading dims merged into one: [batch, heads, rows, cols].
struct Matrices {
  int64_t sizes[4] = {1, 1, 1, 1};
  int64_t strides[4] = {};
};

Status read_matrices(const Tensor& t, const char* name, const Tensor& query, Matrices* ret) {
  AOTIP_RETURN_IF_FAILED(ops::check_on(t, name, kMps));
  AOTIP_CHECK(t.dtype() == query.dtype(), "%s is %s, expected %s as query", name,
              dtype_name(t.dtype()), dtype_name(query.dtype()));
  AOTIP_CHECK(t.ndim() >= 3 && t.ndim() == query.ndim(), "%s has %lld dims, expected %s", name,
              ll(t.ndim()), t.ndim() < 3 ? "3 or more" : "as many as query");
  for (int64_t d = 0; d < 3; ++d) {
    ret->sizes[1 + d] = t.size(t.ndim() - 3 + d);
    ret->strides[1 + d] = t.stride(t.ndim() - 3 + d);
  }
  for (int64_t d = t.ndim() - 4; d >= 0; --d) {
    if (t.size(d) == 1) {
      continue;
    }
    AOTIP_CHECK(ret->sizes[0] == 1 || t.stride(d) == ret->strides[0] * ret->sizes[0],
                "the leading dims of %s cannot be merged into one", name);
    ret->strides[0] = ret->sizes[0] == 1 ? t.stride(d) : ret->strides[0];
    ret->sizes[0] *= t.size(d);
  }
  for (int64_t size : ret->sizes) {
    AOTIP_CHECK(size < kInt32Max, "%s has a dim of %lld", name, ll(size));
  }
  return Status::kOk;
}

/// Reads the mask's strides in [batch, heads, rows, keys], 0 where it broadcasts.
Status read_mask(const Tensor& mask, const Tensor& query, const Matrices& q, int64_t keys,
                 AttentionArgs* p) {
  AOTIP_RETURN_IF_FAILED(ops::check_on(mask, "the mask", kMps));
  AOTIP_CHECK(mask.dtype() == kBool || metal_type(mask.dtype()) != nullptr,
              "a mask of %s, expected bool or a float", dtype_name(mask.dtype()));
  AOTIP_CHECK(mask.dtype() == kBool || is_real(mask.dtype()),
              "a mask of %s, expected bool or a float", dtype_name(mask.dtype()));
  AOTIP_CHECK(mask.ndim() <= query.ndim() && (mask.ndim() <= 4 || mask.ndim() == query.ndim()),
              "the mask has %lld dims, expected at most %lld", ll(mask.ndim()), ll(query.ndim()));
  const int64_t expected[4] = {q.sizes[0], q.sizes[1], q.sizes[2], keys};
  int64_t* const strides[4] = {&p->m_batch, &p->m_head, &p->m_row, &p->m_col};
  const int64_t last = std::min<int64_t>(mask.ndim(), 3);
  for (int64_t i = 1; i <= last; ++i) {
    const int64_t size = mask.size(mask.ndim() - i);
    AOTIP_CHECK(size == 1 || size == expected[4 - i],
                "size %lld of the mask does not broadcast to %lld", ll(size), ll(expected[4 - i]));
    *strides[4 - i] = size == 1 ? 0 : mask.stride(mask.ndim() - i);
  }
  int64_t batch = 1;
  for (int64_t d = mask.ndim() - 4; d >= 0; --d) {
    if (mask.size(d) != 1) {
      AOTIP_CHECK(batch == 1 || mask.stride(d) == p->m_batch * batch,
                  "the leading dims of the mask cannot be merged into one");
      p->m_batch = batch == 1 ? mask.stride(d) : p->m_batch;
      batch *= mask.size(d);
    }
  }
  AOTIP_CHECK(batch == 1 || batch == q.sizes[0], "the mask is for %lld batches, expected %lld",
              ll(batch), ll(q.sizes[0]));
  return Status::kOk;
}

/// Everything about one call, after all checks.
struct Plan {
  Matrices q;
  Matrices k;
  Matrices v;
  AttentionArgs args{};
  std::string defines;
  int64_t heads = 0;  ///< of all batches
};

void copy_strides(const Matrices& from, int64_t* batch, int64_t* head, int64_t* row, int64_t* col) {
  *batch = from.strides[0];
  *head = from.strides[1];
  *row = from.strides[2];
  *col = from.strides[3];
}

Status make_plan(const Attention& call, Plan* plan) {
  const Tensor& query = *call.query;
  AOTIP_CHECK(query.dtype() == kFloat32 || query.dtype() == kFloat16 || query.dtype() == kBFloat16,
              "no attention of %s on mps", dtype_name(query.dtype()));
  AOTIP_RETURN_IF_FAILED(read_matrices(query, "query", query, &plan->q));
  AOTIP_RETURN_IF_FAILED(read_matrices(*call.key, "key", query, &plan->k));
  AOTIP_RETURN_IF_FAILED(read_matrices(*call.value, "value", query, &plan->v));
  const int64_t* q = plan->q.sizes;
  const int64_t* k = plan->k.sizes;
  const int64_t* v = plan->v.sizes;
  AOTIP_CHECK(q[0] == k[0] && q[0] == v[0], "batches differ: query %lld, key %lld, value %lld",
              ll(q[0]), ll(k[0]), ll(v[0]));
  AOTIP_CHECK(k[1] == v[1] && (k[1] == q[1] || (k[1] > 0 && q[1] % k[1] == 0)),
              "%lld key heads and %lld value heads for %lld heads", ll(k[1]), ll(v[1]), ll(q[1]));
  AOTIP_CHECK(k[2] == v[2], "%lld keys and %lld values", ll(k[2]), ll(v[2]));
  AOTIP_CHECK(q[3] == k[3], "keys have %lld elements, expected %lld as queries", ll(k[3]),
              ll(q[3]));
  AttentionArgs& p = plan->args;
  copy_strides(plan->q, &p.q_batch, &p.q_head, &p.q_row, &p.q_col);
  copy_strides(plan->k, &p.k_batch, &p.k_head, &p.k_row, &p.k_col);
  copy_strides(plan->v, &p.v_batch, &p.v_head, &p.v_row, &p.v_col);
  p.heads = static_cast<int32_t>(q[1]);
  p.group = static_cast<int32_t>(k[1] > 0 ? q[1] / k[1] : 1);
  p.rows = static_cast<int32_t>(q[2]);
  p.keys = static_cast<int32_t>(k[2]);
  p.splits = 1;
  p.causal = call.causal ? 1 : 0;
  p.scale = static_cast<float>(call.scale);
  p.o_col = 1;
  p.o_row = v[3];
  p.o_head = v[3] * q[2];
  p.o_batch = v[3] * q[2] * q[1];
  plan->heads = q[0] * q[1];
  const bool has_mask = call.mask != nullptr;
  if (has_mask) {
    AOTIP_RETURN_IF_FAILED(read_mask(*call.mask, query, plan->q, k[2], &p));
  }
  const int64_t kind = !has_mask ? 0 : call.mask->dtype() == kBool ? 2 : 1;
  plan->defines = define("T", metal_type(query.dtype())) + define("D", q[3]) + define("DV", v[3]) +
                  define("MASK", kind) +
                  define("MASK_T", has_mask ? metal_type(call.mask->dtype()) : "float");
  return Status::kOk;
}

/// The buffers that both kernels begin with. Keys without elements are not read: the result stands
/// for them, as it does for no mask.
Launch& bind(Launch& launch, const Attention& call, const Tensor& out) {
  const auto or_out = [&out](const Tensor* t) -> const Tensor& {
    return t != nullptr && t->numel() > 0 ? *t : out;
  };
  return launch.tensor(or_out(call.query))
      .tensor(or_out(call.key))
      .tensor(or_out(call.value))
      .tensor(or_out(call.mask))
      .tensor(out);
}

/// Pieces of at least 256 keys, such that a few queries against a long cache still fill a GPU.
int32_t count_splits(const Plan& plan) {
  const int64_t groups = plan.heads * plan.args.rows;
  const int64_t wanted = groups > 0 ? 256 / groups : 1;
  return static_cast<int32_t>(
      std::max<int64_t>(std::min<int64_t>({wanted, plan.args.keys / 256, 64}), 1));
}

Status run_rows(const Attention& call, const Plan& plan, const Tensor& out) {
  AttentionArgs p = plan.args;
  p.splits = count_splits(plan);
  const Kernel* kernel = find_kernel(metal_attention_rows, "attention_rows", plan.defines);
  OwnedTensor partial;
  if (p.splits > 1) {
    const int64_t sizes[] = {plan.heads, p.rows, p.splits, plan.v.sizes[3] + 2};
    partial.reset(Tensor::empty(4, sizes, kFloat32, out.device()));
    AOTIP_RETURN_IF_NULL(partial);
  }
  const size_t rows = static_cast<size_t>(p.rows);
  const size_t heads = static_cast<size_t>(plan.heads);
  Launch launch(kernel);
  AOTIP_RETURN_IF_FAILED(
      bind(launch, call, out)
          .tensor(partial != nullptr ? *partial : out)
          .value(p)
          .groups({rows, heads, static_cast<size_t>(p.splits)}, {kRowsThreads, 1, 1}));
  if (partial == nullptr) {
    return Status::kOk;
  }
  const Kernel* merge = find_kernel(metal_attention_rows, "attention_merge", plan.defines);
  const size_t limit = merge != nullptr ? max_threads(*merge) : 1;
  const size_t width = static_cast<size_t>(plan.v.sizes[3]);
  Launch join(merge);
  return join.tensor(out).tensor(*partial).value(p).threads(
      {width, rows, heads}, {std::min<size_t>({width, limit, 256}), 1, 1});
}

/// Chooses the kernel: many queries go by tiles where an element of simdgroup matrices is wide
/// enough; a target without them, wide heads, and few queries go by rows.
Status run(const Attention& call, const Plan& plan, const Tensor& out) {
  const int64_t widest = std::max(plan.q.sizes[3], plan.v.sizes[3]);
  if (plan.args.rows >= 8 && widest <= kTileMaxWidth && plan.q.sizes[3] > 0) {
    const Kernel* kernel = find_kernel(metal_attention_tiled, "attention_tiled", plan.defines);
    if (kernel != nullptr) {
      const int64_t tiles = (plan.args.rows + kTileRows - 1) / kTileRows;
      Launch launch(kernel);
      return bind(launch, call, out)
          .value(plan.args)
          .groups({static_cast<size_t>(tiles), static_cast<size_t>(plan.heads), 1},
                  {kTileThreads, 1, 1});
    }
  }
  AOTIP_CHECK(plan.q.sizes[3] > 0, "queries have no elements");
  return run_rows(call, plan, out);
}

}  // namespace

Tensor* attention(const Attention& call) noexcept {
  try {
    Plan plan;
    if (make_plan(call, &plan) != Status::kOk) {
      return nullptr;
    }
    const Tensor& query = *call.query;
    int64_t sizes[Tensor::kMaxDims];
    std::copy(query.sizes(), query.sizes() + query.ndim(), sizes);
    sizes[query.ndim() - 1] = plan.v.sizes[3];
    OwnedTensor out(Tensor::empty(query.ndim(), sizes, query.dtype(), query.device()));
    if (out == nullptr || out->numel() == 0) {
      return out.release();
    }
    return run(call, plan, *out) == Status::kOk ? out.release() : nullptr;
  } catch (const std::exception& error) {
    (void)fail("%s", error.what());
    return nullptr;
  }
}

}  // namespace aoti_plugins::mps
