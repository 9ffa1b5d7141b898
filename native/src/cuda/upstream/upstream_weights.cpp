#include "cuda/upstream/upstream_weights.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "delegate/byte_reader.h"
#include "slim/device.h"
#include "slim/dtype.h"
#include "slim/tensor.h"

namespace aoti_plugins::cuda {
namespace {

using ::executorch::runtime::NamedDataMap;

/// The version that executorch 1.5 writes.
constexpr char kVersion = '3';
constexpr size_t kMagicNbytes = sizeof(kWeightsMagic) - 1;

constexpr char kOther[] = "Lower the model with executorch 1.5 or with aoti_plugins.";

/// One constant, with the storage that it is a view of.
struct Weight {
  ConstantRef constant;
  StorageRef storage;
};

Status read_dtype(ByteReader& in, uint32_t* ret) {
  const size_t at = in.offset();
  AOTIP_RETURN_IF_FAILED(in.u32("dtype", ret));
  return element_nbytes(static_cast<int32_t>(*ret)) > 0
             ? Status::kOk
             : in.refuse("dtype", at, kOther, "dtype code %u is not known", *ret);
}

Status read_device(ByteReader& in, bool* on_host) {
  const size_t at = in.offset();
  uint32_t type = 0;
  AOTIP_RETURN_IF_FAILED(in.u32("device_type", &type));
  *on_host = type == static_cast<uint32_t>(kCpu);
  return *on_host || type == static_cast<uint32_t>(kCuda)
             ? Status::kOk
             : in.refuse("device_type", at, kOther, "code %u, expected 0 (cpu) or 1 (cuda)", type);
}

Status read_counts(ByteReader& in, const char* field, std::vector<int64_t>* ret) {
  for (int64_t& value : *ret) {
    AOTIP_RETURN_IF_FAILED(in.count64(field, &value));
  }
  return Status::kOk;
}

Status read_shape(ByteReader& in, ConstantRef* constant) {
  const size_t at = in.offset();
  uint32_t ndim = 0;
  AOTIP_RETURN_IF_FAILED(in.u32("ndim", &ndim));
  if (ndim > Tensor::kMaxDims) {
    return in.refuse("ndim", at, kDamaged, "%u dims, expected at most %lld", ndim,
                     static_cast<long long>(Tensor::kMaxDims));
  }
  constant->sizes.resize(ndim);
  constant->strides.resize(ndim);
  AOTIP_RETURN_IF_FAILED(read_counts(in, "sizes", &constant->sizes));
  return read_counts(in, "strides", &constant->strides);
}

/// The view must lie inside its storage.
Status check_extent(ByteReader& in, const Weight& weight, size_t at) {
  const ConstantRef& constant = weight.constant;
  const size_t itemsize = element_nbytes(static_cast<int32_t>(constant.dtype));
  int64_t numel = 0;
  size_t needed = 0;
  if (storage_extent(static_cast<int64_t>(constant.sizes.size()), constant.sizes.data(),
                     constant.strides.data(), constant.storage_offset, itemsize, &numel,
                     &needed) != Status::kOk) {
    return in.refuse("", at, kDamaged, "sizes and strides of '%s' exceed 64 bits",
                     constant.fqn.c_str());
  }
  return needed <= weight.storage.nbytes
             ? Status::kOk
             : in.refuse("", at, kDamaged,
                         "'%s' reaches to byte %zu of storage '%s', which has %llu bytes",
                         constant.fqn.c_str(), needed, weight.storage.key.c_str(),
                         static_cast<unsigned long long>(weight.storage.nbytes));
}

Status read_weight(ByteReader& in, std::set<std::string>* names, Weight* weight) {
  const size_t start = in.offset();
  ConstantRef& constant = weight->constant;
  AOTIP_RETURN_IF_FAILED(in.str("fqn", &constant.fqn));
  if (!names->insert(constant.fqn).second) {
    return in.refuse("fqn", start, kDamaged, "'%s' is listed twice, expected once",
                     constant.fqn.c_str());
  }
  AOTIP_RETURN_IF_FAILED(in.str("storage_key", &weight->storage.key));
  AOTIP_RETURN_IF_FAILED(in.u64("storage_nbytes", &weight->storage.nbytes));
  AOTIP_RETURN_IF_FAILED(read_dtype(in, &constant.dtype));
  AOTIP_RETURN_IF_FAILED(read_device(in, &weight->storage.on_host));
  AOTIP_RETURN_IF_FAILED(in.count64("storage_offset", &constant.storage_offset));
  AOTIP_RETURN_IF_FAILED(read_shape(in, &constant));
  return check_extent(in, *weight, start);
}

Status read_weights(ByteReader& in, std::string* ret_blob, std::vector<Weight>* weights) {
  // fqn, key, size, dtype, device, offset and ndim of the smallest
  constexpr size_t kLeastNbytes = 36;
  std::set<std::string> names;
  AOTIP_RETURN_IF_FAILED(in.str("so_blob_key", ret_blob));
  AOTIP_RETURN_IF_FAILED(in.items("entries", kLeastNbytes, weights,
                                  [&](Weight* weight) { return read_weight(in, &names, weight); }));
  return in.remaining() == 0
             ? Status::kOk
             : in.refuse("entries", in.offset(), kDamaged,
                         "%zu bytes follow the last entry, expected none", in.remaining());
}

/// Where the program's data has its keys. Each method is given a map of its own, but all of them
/// tell the same addresses, which therefore name the program. Empty where a map does not tell keys.
std::map<std::string, const void*> key_owners(const NamedDataMap* map) {
  std::map<std::string, const void*> owners;
  const auto count =
      map != nullptr
          ? map->get_num_keys()
          : ::executorch::runtime::Result<uint32_t>(::executorch::runtime::Error::NotFound);
  for (uint32_t i = 0; count.ok() && i < count.get(); ++i) {
    const auto key = map->get_key(i);
    if (key.ok() && key.get() != nullptr) {
      owners.emplace(key.get(), key.get());
    }
  }
  return owners;
}

/// Two weights may name one storage.
void add_weights(std::vector<Weight>&& weights, const NamedDataMap* map, Payload* ret) {
  const std::map<std::string, const void*> owners = key_owners(map);
  std::map<std::tuple<std::string, uint64_t, bool>, uint32_t> known;
  for (Weight& weight : weights) {
    StorageRef& storage = weight.storage;
    const auto [found, added] = known.try_emplace({storage.key, storage.nbytes, storage.on_host},
                                                  static_cast<uint32_t>(ret->storages.size()));
    weight.constant.storage = found->second;
    if (added) {
      const auto owner = owners.find(storage.key);
      storage.owner = owner != owners.end() ? owner->second : nullptr;
      ret->storages.push_back(std::move(storage));
    }
    ret->constants.push_back(std::move(weight.constant));
  }
}

}  // namespace

Status read_upstream_weights(const void* data, size_t nbytes, const NamedDataMap* map,
                             std::string* ret_blob, Payload* ret) noexcept {
  try {
    const auto* bytes = static_cast<const uint8_t*>(data);
    ByteReader in(bytes, nbytes, std::min(nbytes, kMagicNbytes + 1));
    AOTIP_CHECK(nbytes > kMagicNbytes && bytes[kMagicNbytes] == kVersion,
                "the program's list of weights is of version '%.*s', expected '%s%c' (executorch "
                "1.5). %s",
                static_cast<int>(std::min(nbytes, kMagicNbytes + 1)),
                static_cast<const char*>(data), kWeightsMagic, kVersion, kOther);
    std::vector<Weight> weights;
    AOTIP_RETURN_IF_FAILED(read_weights(in, ret_blob, &weights));
    add_weights(std::move(weights), map, ret);
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("reading the program's list of weights: %s", error.what());
  }
}

}  // namespace aoti_plugins::cuda
