#include "ranks/collectives.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <exception>
#include <type_traits>
#include <vector>

#include "slim/dtype.h"
#include "slim/half.h"

namespace aoti_plugins::ranks {
namespace {

using Pieces = std::vector<const uint8_t*>;

/// How an element is read and written: as what it is, or as a float.
template <typename T>
struct Plain {
  using Stored = T;
  static T read(T value) { return value; }
  static T write(T value) { return value; }
};

struct Half {
  using Stored = uint16_t;
  static float read(uint16_t bits) { return half_to_float(bits); }
  static uint16_t write(float value) { return float_to_half(value); }
};

struct BFloat16 {
  using Stored = uint16_t;
  static float read(uint16_t bits) { return bfloat16_to_float(bits); }
  static uint16_t write(float value) { return float_to_bfloat16(value); }
};

template <typename V>
V add(V a, V b) {
  if constexpr (std::is_integral_v<V>) {
    return static_cast<V>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename V>
V multiply(V a, V b) {
  if constexpr (std::is_integral_v<V>) {
    return static_cast<V>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  } else {
    return a * b;
  }
}

/// As PyTorch's: a NaN stays one.
template <typename V>
V smaller(V a, V b) {
  return a != a || a < b ? a : b;
}

template <typename V>
V larger(V a, V b) {
  return a != a || a > b ? a : b;
}

template <typename E, typename Join, typename Last>
void reduce_with(const Pieces& pieces, size_t count, void* out, const Join& join,
                 const Last& last) {
  using Stored = typename E::Stored;
  auto* to = static_cast<Stored*>(out);
  for (size_t i = 0; i < count; ++i) {
    auto value = E::read(reinterpret_cast<const Stored*>(pieces[0])[i]);
    for (size_t rank = 1; rank < pieces.size(); ++rank) {
      value = join(value, E::read(reinterpret_cast<const Stored*>(pieces[rank])[i]));
    }
    to[i] = E::write(last(value));
  }
}

template <typename E>
void reduce_as(Reduction reduction, const Pieces& pieces, size_t count, void* out) {
  using V = decltype(E::read(typename E::Stored{}));
  const auto same = [](V value) { return value; };
  const V size = static_cast<V>(pieces.size());
  switch (reduction) {
    case Reduction::kSum:
      return reduce_with<E>(pieces, count, out, add<V>, same);
    case Reduction::kAverage:
      return reduce_with<E>(pieces, count, out, add<V>,
                            [size](V value) { return static_cast<V>(value / size); });
    case Reduction::kMinimum:
      return reduce_with<E>(pieces, count, out, smaller<V>, same);
    case Reduction::kMaximum:
      return reduce_with<E>(pieces, count, out, larger<V>, same);
    case Reduction::kProduct:
      return reduce_with<E>(pieces, count, out, multiply<V>, same);
  }
}

using Reduce = void (*)(Reduction, const Pieces&, size_t, void*);

Reduce reduce_of(int32_t dtype) {
  switch (dtype) {
    case kFloat32:
      return reduce_as<Plain<float>>;
    case kFloat64:
      return reduce_as<Plain<double>>;
    case kFloat16:
      return reduce_as<Half>;
    case kBFloat16:
      return reduce_as<BFloat16>;
    case kUInt8:
      return reduce_as<Plain<uint8_t>>;
    case kInt8:
      return reduce_as<Plain<int8_t>>;
    case kInt32:
      return reduce_as<Plain<int32_t>>;
    case kInt64:
      return reduce_as<Plain<int64_t>>;
    default:
      return nullptr;
  }
}

const uint8_t* at(const void* start, size_t offset) {
  return static_cast<const uint8_t*>(start) + offset;
}

uint8_t* at(void* start, size_t offset) {
  return static_cast<uint8_t*>(start) + offset;
}

/// A copy that may be of nothing, whose addresses may be null then.
void copy(void* to, const void* from, size_t nbytes) {
  if (nbytes > 0 && to != from) {
    std::memcpy(to, from, nbytes);
  }
}

/// Runs the steps of a collective, none in between.
template <typename Work>
Status in_turn(World& world, const Work& work) noexcept {
  try {
    const auto turn = world.lock();
    return work();
  } catch (const std::exception& error) {
    return fail("%s", error.what());
  }
}

}  // namespace

Status check_reduction(int64_t reduction, int32_t dtype) noexcept {
  AOTIP_CHECK(reduction >= 0 && reduction <= static_cast<int64_t>(Reduction::kProduct),
              "reduction %" PRId64 ", expected 0 to 4", reduction);
  AOTIP_CHECK(reduce_of(dtype) != nullptr,
              "%s is not reduced over ranks, expected float16, bfloat16, float32, float64, uint8, "
              "int8, int32 or int64",
              dtype_name(dtype));
  return Status::kOk;
}

Status all_reduce(World& world, const Group& group, Reduction reduction, int32_t dtype,
                  int64_t numel, const void* in, void* out) noexcept {
  return in_turn(world, [&]() -> Status {
    const Reduce reduce = reduce_of(dtype);
    const size_t itemsize = element_nbytes(dtype);
    Step step = Step::named("all_reduce");
    step.dtype = dtype;
    step.numbers[0] = numel;
    step.numbers[1] = static_cast<int64_t>(reduction);
    const auto most = static_cast<int64_t>(World::kPieceNbytes / itemsize);
    for (int64_t start = 0; start < numel; start += most) {
      const auto count = static_cast<size_t>(std::min(most, numel - start));
      const size_t offset = static_cast<size_t>(start) * itemsize;
      AOTIP_RETURN_IF_FAILED(world.exchange(
          group, step, [&](uint8_t* own) { copy(own, at(in, offset), count * itemsize); },
          [&](const Pieces& pieces) {
            reduce(reduction, pieces, count, at(out, offset));
            return Status::kOk;
          }));
    }
    return Status::kOk;
  });
}

Status reduce_scatter(World& world, const Group& group, Reduction reduction, int32_t dtype,
                      int64_t numel, const void* in, void* out) noexcept {
  return in_turn(world, [&]() -> Status {
    const Reduce reduce = reduce_of(dtype);
    const size_t itemsize = element_nbytes(dtype);
    const auto ranks = static_cast<size_t>(group.size);
    Step step = Step::named("reduce_scatter");
    step.dtype = dtype;
    step.numbers[0] = numel;
    step.numbers[1] = static_cast<int64_t>(reduction);
    const auto most = static_cast<int64_t>(World::kPieceNbytes / ranks / itemsize);
    for (int64_t start = 0; start < numel; start += most) {
      const auto count = static_cast<size_t>(std::min(most, numel - start));
      const size_t nbytes = count * itemsize;
      const size_t offset = static_cast<size_t>(start) * itemsize;
      AOTIP_RETURN_IF_FAILED(world.exchange(
          group, step,
          [&](uint8_t* own) {
            for (size_t i = 0; i < ranks; ++i) {
              const size_t part = i * static_cast<size_t>(numel) * itemsize;
              copy(own + i * nbytes, at(in, part + offset), nbytes);
            }
          },
          [&](const Pieces& pieces) {
            Pieces own;
            for (const uint8_t* piece : pieces) {
              own.push_back(piece + static_cast<size_t>(group.place(world.rank())) * nbytes);
            }
            reduce(reduction, own, count, at(out, offset));
            return Status::kOk;
          }));
    }
    return Status::kOk;
  });
}

Status all_gather(World& world, const Group& group, size_t nbytes, const void* in,
                  void* out) noexcept {
  return in_turn(world, [&]() -> Status {
    Step step = Step::named("all_gather");
    step.numbers[0] = static_cast<int64_t>(nbytes);
    for (size_t start = 0; start < nbytes; start += World::kPieceNbytes) {
      const size_t count = std::min(World::kPieceNbytes, nbytes - start);
      AOTIP_RETURN_IF_FAILED(world.exchange(
          group, step, [&](uint8_t* own) { copy(own, at(in, start), count); },
          [&](const Pieces& pieces) {
            for (size_t i = 0; i < pieces.size(); ++i) {
              copy(at(out, i * nbytes + start), pieces[i], count);
            }
            return Status::kOk;
          }));
    }
    return Status::kOk;
  });
}

Status broadcast(World& world, const Group& group, int32_t source, size_t nbytes, const void* in,
                 void* out, bool patient) noexcept {
  return in_turn(world, [&]() -> Status {
    Step step = Step::named("broadcast");
    step.numbers[0] = static_cast<int64_t>(nbytes);
    step.numbers[1] = source;
    const bool is_source = group.place(world.rank()) == source;
    for (size_t start = 0; start < nbytes; start += World::kPieceNbytes) {
      const size_t count = std::min(World::kPieceNbytes, nbytes - start);
      AOTIP_RETURN_IF_FAILED(world.exchange(
          group, step,
          [&](uint8_t* own) {
            if (is_source) {
              copy(own, at(in, start), count);
            }
          },
          [&](const Pieces& pieces) {
            copy(at(out, start), pieces[static_cast<size_t>(source)], count);
            return Status::kOk;
          },
          patient && !is_source));
    }
    return Status::kOk;
  });
}

namespace {

/// What is said of one step of `all_to_all`: how much there is for each member in all, and how
/// much of it is in this piece. The bytes follow, for one member behind those for another.
struct Parts {
  uint64_t total[kMaxRanks];
  uint64_t here[kMaxRanks];
};

constexpr size_t kPartNbytes = World::kPieceNbytes - sizeof(Parts);

/// The course of an `all_to_all` on one rank.
class Exchanged {
 public:
  Exchanged(const Group& group, int32_t place, const size_t* in_nbytes, const void* in,
            const size_t* out_nbytes, void* out)
      : ranks_(static_cast<size_t>(group.size)),
        place_(static_cast<size_t>(place)),
        in_nbytes_(in_nbytes),
        in_(in),
        out_nbytes_(out_nbytes),
        out_(out),
        given_(ranks_),
        taken_(ranks_) {}

  void fill(uint8_t* own) {
    auto* parts = reinterpret_cast<Parts*>(own);
    uint8_t* to = own + sizeof(Parts);
    const size_t most = kPartNbytes / ranks_;
    size_t start = 0;
    for (size_t i = 0; i < ranks_; ++i) {
      const size_t count = std::min(most, in_nbytes_[i] - given_[i]);
      parts->total[i] = in_nbytes_[i];
      parts->here[i] = count;
      copy(to, at(in_, start + given_[i]), count);
      to += count;
      given_[i] += count;
      start += in_nbytes_[i];
    }
  }

  Status take(const Pieces& pieces, const Group& group, int32_t rank, bool* ret_more) {
    size_t start = 0;
    *ret_more = false;
    for (size_t i = 0; i < ranks_; ++i) {
      const auto& parts = *reinterpret_cast<const Parts*>(pieces[i]);
      AOTIP_CHECK(parts.total[place_] == out_nbytes_[i],
                  "all_to_all: rank %d has %" PRIu64 " bytes for rank %d, which expects %zu",
                  group.member(rank, static_cast<int32_t>(i)), parts.total[place_], rank,
                  out_nbytes_[i]);
      const uint8_t* from = pieces[i] + sizeof(Parts);
      for (size_t j = 0; j < ranks_; ++j) {
        // What every member still has: all of them see the same and end together.
        const size_t before = j == place_ ? taken_[i] : sent_[i * kMaxRanks + j];
        const size_t after = before + parts.here[j];
        if (j == place_) {
          copy(at(out_, start + taken_[i]), from, parts.here[j]);
          taken_[i] = after;
        } else {
          sent_[i * kMaxRanks + j] = after;
        }
        *ret_more = *ret_more || after < parts.total[j];
        from += parts.here[j];
      }
      start += out_nbytes_[i];
    }
    return Status::kOk;
  }

 private:
  size_t ranks_;
  size_t place_;
  const size_t* in_nbytes_;
  const void* in_;
  const size_t* out_nbytes_;
  void* out_;
  std::vector<size_t> given_;  // bytes, by member
  std::vector<size_t> taken_;
  std::vector<size_t> sent_ = std::vector<size_t>(kMaxRanks * kMaxRanks);
};

}  // namespace

Status all_to_all(World& world, const Group& group, const size_t* in_nbytes, const void* in,
                  const size_t* out_nbytes, void* out) noexcept {
  return in_turn(world, [&]() -> Status {
    Exchanged exchanged(group, group.place(world.rank()), in_nbytes, in, out_nbytes, out);
    const Step step = Step::named("all_to_all");
    for (bool more = true; more;) {
      AOTIP_RETURN_IF_FAILED(world.exchange(
          group, step, [&](uint8_t* own) { exchanged.fill(own); },
          [&](const Pieces& pieces) {
            const Status taken = exchanged.take(pieces, group, world.rank(), &more);
            return taken == Status::kOk ? taken : world.end_with_last_failure();
          }));
    }
    return Status::kOk;
  });
}

}  // namespace aoti_plugins::ranks
