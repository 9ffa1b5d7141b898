#include "cpu/math/packed_weights.h"

#include <cstdlib>
#include <exception>

namespace aoti_plugins::cpu {

PackedWeights::PackedWeights(const Xnnpack& library) noexcept : library_(library) {
  cache_.context = this;
  cache_.look_up = look_up;
  cache_.reserve_space = reserve_space;
  cache_.look_up_or_insert = look_up_or_insert;
  cache_.is_finalized = [](void*) { return true; };  // what is packed never moves
  cache_.offset_to_addr = [](void*, size_t offset) { return reinterpret_cast<void*>(offset); };
  cache_.delete_cache = [](void*) { return kXnnSuccess; };
}

PackedWeights::~PackedWeights() {
  for (const Operator& idle : idle_) {
    library_.delete_operator(idle.op);
  }
}

XnnOperator* PackedWeights::take(int64_t variant, Create create) noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t i = idle_.size(); i-- > 0;) {
    if (idle_[i].variant == variant) {
      XnnOperator* op = idle_[i].op;
      idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(i));
      return op;
    }
  }
  XnnOperator* made = nullptr;
  return create(&cache_, &made) == kXnnSuccess ? made : nullptr;
}

void PackedWeights::give(int64_t variant, XnnOperator* op) noexcept {
  try {
    const std::lock_guard<std::mutex> lock(mutex_);
    idle_.push_back({variant, op});
  } catch (const std::exception&) {
    library_.delete_operator(op);
  }
}

// The callbacks run inside `take`, which holds the lock. An offset is an address.

size_t PackedWeights::look_up(void* context, const XnnWeightsKey* key) {
  for (const Packed& packed : static_cast<PackedWeights*>(context)->packed_) {
    if (packed.key.seed == key->seed && packed.key.fingerprint == key->fingerprint) {
      return reinterpret_cast<size_t>(packed.data.get());
    }
  }
  return SIZE_MAX;
}

void* PackedWeights::reserve_space(void* context, size_t nbytes) {
  auto& packed = static_cast<PackedWeights*>(context)->packed_;
  void* data = nullptr;
  if (posix_memalign(&data, 64, nbytes + kXnnExtraNbytes) != 0) {
    return nullptr;
  }
  try {
    packed.push_back({{}, {data, std::free}});
  } catch (const std::exception&) {
    std::free(data);
    return nullptr;
  }
  return data;
}

size_t PackedWeights::look_up_or_insert(void* context, const XnnWeightsKey* key, void* data,
                                        size_t) {
  for (Packed& packed : static_cast<PackedWeights*>(context)->packed_) {
    if (packed.data.get() == data) {
      packed.key = *key;
    }
  }
  return reinterpret_cast<size_t>(data);
}

PackedWeights::Lease::Lease(PackedWeights& weights, int64_t variant, Create create) noexcept
    : weights_(weights), variant_(variant), operator_(weights.take(variant, create)) {}

PackedWeights::Lease::~Lease() {
  if (operator_ != nullptr) {
    weights_.give(variant_, operator_);
  }
}

}  // namespace aoti_plugins::cpu
