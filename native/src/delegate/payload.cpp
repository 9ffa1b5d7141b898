#include "delegate/payload.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <set>

#include "delegate/byte_reader.h"
#include "delegate/crc32.h"
#include "slim/dtype.h"
#include "slim/tensor.h"

namespace aoti_plugins {
namespace {

constexpr char kMagic[8] = {'A', 'O', 'T', 'I', 'P', 'L', 'U', 'G'};
constexpr size_t kHeaderNbytes = 32;
constexpr size_t kHeaderCrcOffset = 28;
constexpr size_t kBodyCrcOffset = 24;

/// The checks are in the order that gives the most useful first message; see docs/payload.md.
/// `*body_end` is where the body ends.
Status read_header(const uint8_t* data, size_t nbytes, Payload* ret, size_t* body_end) {
  ByteReader reader(data, nbytes, 0);
  if (nbytes < sizeof(kMagic) || std::memcmp(data, kMagic, sizeof(kMagic)) != 0) {
    char found[2 * sizeof(kMagic) + 1] = "nothing";
    for (size_t i = 0; i < std::min(nbytes, sizeof(kMagic)); ++i) {
      std::snprintf(found + 2 * i, 3, "%02x", data[i]);
    }
    return reader.refuse("magic", 0, kDamaged, "found %s, expected 414f5449504c5547 (AOTIPLUG)",
                         found);
  }
  if (nbytes < kHeaderNbytes) {
    return reader.refuse("header", 0, kDamaged, "%zu bytes, expected %zu", nbytes, kHeaderNbytes);
  }
  ByteReader fields(data, kHeaderNbytes, sizeof(kMagic));
  uint64_t total = 0;
  uint32_t body_crc = 0;
  uint32_t header_crc = 0;
  AOTIP_RETURN_IF_FAILED(fields.u32("version", &ret->version));
  AOTIP_RETURN_IF_FAILED(fields.u32("flags", &ret->flags));
  AOTIP_RETURN_IF_FAILED(fields.u64("total_nbytes", &total));
  AOTIP_RETURN_IF_FAILED(fields.u32("body_crc32", &body_crc));
  AOTIP_RETURN_IF_FAILED(fields.u32("header_crc32", &header_crc));
  const uint32_t header_found = crc32(data, kHeaderCrcOffset);
  if (header_found != header_crc) {
    return reader.refuse("header_crc32", kHeaderCrcOffset, kDamaged,
                         "the header's checksum is %08x, expected %08x", header_found, header_crc);
  }
  if (ret->version < kFirstPayloadVersion || ret->version > kPayloadVersion) {
    return reader.refuse("version", 8, kNewer, "version %u, this runtime reads versions %u to %u",
                         ret->version, kFirstPayloadVersion, kPayloadVersion);
  }
  if ((ret->flags & ~kKnownFlags) != 0) {
    return reader.refuse("flags", 12, kNewer, "flags %08x, this runtime knows %08x", ret->flags,
                         kKnownFlags);
  }
  const size_t end_nbytes = ret->version == kFirstPayloadVersion ? 0 : kSignaturesNbytes;
  if (total < kHeaderNbytes + end_nbytes) {
    return reader.refuse("total_nbytes", 16, kDamaged, "%llu bytes, expected at least %zu",
                         static_cast<unsigned long long>(total), kHeaderNbytes + end_nbytes);
  }
  if (total > nbytes) {
    return reader.refuse("total_nbytes", 16, kDamaged,
                         "%llu bytes, only %zu are there: it was cut off",
                         static_cast<unsigned long long>(total), nbytes);
  }
  if (total < nbytes) {
    return reader.refuse("total_nbytes", 16, kDamaged,
                         "%llu bytes, but %zu are there: others follow",
                         static_cast<unsigned long long>(total), nbytes);
  }
  *body_end = nbytes - end_nbytes;
  const uint32_t body_found = crc32(data + kHeaderNbytes, *body_end - kHeaderNbytes);
  if (body_found != body_crc) {
    return reader.refuse("body_crc32", kBodyCrcOffset, kDamaged,
                         "the body's checksum is %08x, expected %08x", body_found, body_crc);
  }
  return Status::kOk;
}

/// Reads a code of at most `last` and refuses others, which a later version may know.
template <typename Enum>
Status read_choice(ByteReader& in, const char* field, uint32_t first, uint32_t last, Enum* ret) {
  const size_t at = in.offset();
  uint32_t code = 0;
  AOTIP_RETURN_IF_FAILED(in.u32(field, &code));
  if (code < first || code > last) {
    return in.refuse(field, at, kNewer, "code %u is not known, expected %u to %u", code, first,
                     last);
  }
  *ret = static_cast<Enum>(code);
  return Status::kOk;
}

Status read_dtype(ByteReader& in, uint32_t* ret) {
  const size_t at = in.offset();
  AOTIP_RETURN_IF_FAILED(in.u32("dtype", ret));
  return is_payload_dtype(*ret)
             ? Status::kOk
             : in.refuse("dtype", at, kNewer, "dtype code %u is not known", *ret);
}

/// The digest of a blob, which version 1 has not.
Status read_digest(ByteReader& in, const char* field, uint32_t version,
                   std::optional<Sha256>* ret) {
  if (version == kFirstPayloadVersion) {
    return Status::kOk;
  }
  return in.raw(field, ret->emplace().size(), (*ret)->data());
}

Status read_symbols(ByteReader& in, std::vector<std::string>* ret) {
  const size_t at = in.offset();
  AOTIP_RETURN_IF_FAILED(
      in.items("symbols", 4, ret, [&](std::string* symbol) { return in.str("", symbol); }));
  for (size_t i = 1; i < ret->size(); ++i) {
    if ((*ret)[i - 1] >= (*ret)[i]) {
      return in.refuse("symbols", at, kDamaged,
                       "'%s' follows '%s', expected sorted names without repeats",
                       (*ret)[i].c_str(), (*ret)[i - 1].c_str());
    }
  }
  return Status::kOk;
}

Status read_library(ByteReader& in, LibraryRef* library) {
  AOTIP_RETURN_IF_FAILED(in.str("soname", &library->soname));
  AOTIP_RETURN_IF_FAILED(in.str("version", &library->version));
  return in.str("origin", &library->origin);
}

Status read_kernel(ByteReader& in, KernelRef* kernel) {
  const auto read_text = [&](std::string* text) { return in.str("", text); };
  AOTIP_RETURN_IF_FAILED(in.str("name", &kernel->name));
  AOTIP_RETURN_IF_FAILED(in.items("ops", 4, &kernel->ops, read_text));
  AOTIP_RETURN_IF_FAILED(in.items("modules", 4, &kernel->modules, read_text));
  AOTIP_RETURN_IF_FAILED(in.items("lines", 4, &kernel->lines, read_text));
  AOTIP_RETURN_IF_FAILED(in.u64("nbytes_read", &kernel->nbytes_read));
  AOTIP_RETURN_IF_FAILED(in.u64("nbytes_written", &kernel->nbytes_written));
  return in.u64("flops", &kernel->flops);
}

Status read_kernels(ByteReader& in, std::vector<KernelRef>* kernels) {
  std::set<std::string> names;
  return in.items("kernels", 40, kernels, [&](KernelRef* kernel) {
    const size_t at = in.offset();
    AOTIP_RETURN_IF_FAILED(read_kernel(in, kernel));
    return names.insert(kernel->name).second
               ? Status::kOk
               : in.refuse("name", at, kDamaged, "'%s' is listed twice, expected once",
                           kernel->name.c_str());
  });
}

Status read_target(ByteReader& in, uint32_t version, std::set<std::string>* names,
                   TargetArtifact* target) {
  const size_t at = in.offset();
  AOTIP_RETURN_IF_FAILED(in.str("name", &target->name));
  if (!names->insert(target->name).second) {
    return in.refuse("name", at, kDamaged, "target '%s' is listed twice, expected once",
                     target->name.c_str());
  }
  AOTIP_RETURN_IF_FAILED(in.str("machine", &target->machine));
  AOTIP_RETURN_IF_FAILED(in.items("features", 4, &target->features,
                                  [&](std::string* feature) { return in.str("", feature); }));
  AOTIP_RETURN_IF_FAILED(read_choice(in, "artifact_kind", 1, 1, &target->kind));
  AOTIP_RETURN_IF_FAILED(in.str("artifact_key", &target->key));
  AOTIP_RETURN_IF_FAILED(in.u64("artifact_nbytes", &target->nbytes));
  if (version == kFirstPayloadVersion) {
    AOTIP_RETURN_IF_FAILED(in.u32("artifact_crc32", &target->crc32));
  }
  AOTIP_RETURN_IF_FAILED(read_digest(in, "artifact_sha256", version, &target->sha256));
  AOTIP_RETURN_IF_FAILED(in.items("libraries", 12, &target->libraries,
                                  [&](LibraryRef* library) { return read_library(in, library); }));
  AOTIP_RETURN_IF_FAILED(read_symbols(in, &target->symbols));
  return version >= kKernelsPayloadVersion ? read_kernels(in, &target->kernels) : Status::kOk;
}

Status read_targets(ByteReader& in, uint32_t version, std::vector<TargetArtifact>* targets) {
  const size_t at = in.offset();
  const size_t more_nbytes = (version == kFirstPayloadVersion ? 4 : sizeof(Sha256)) +
                             (version >= kKernelsPayloadVersion ? 4 : 0);
  std::set<std::string> names;
  AOTIP_RETURN_IF_FAILED(in.items("targets", 36 + more_nbytes, targets, [&](auto* target) {
    return read_target(in, version, &names, target);
  }));
  return targets->empty()
             ? in.refuse("targets", at, kDamaged, "the list is empty, expected at least one target")
             : Status::kOk;
}

/// The view must lie inside its storage; without elements, its offset must.
Status check_extent(ByteReader& in, const ConstantRef& constant, const StorageRef& storage,
                    size_t at) {
  const size_t itemsize = element_nbytes(static_cast<int32_t>(constant.dtype));
  int64_t numel = 0;
  size_t needed = 0;
  const Status extent =
      storage_extent(static_cast<int64_t>(constant.sizes.size()), constant.sizes.data(),
                     constant.strides.data(), constant.storage_offset, itemsize, &numel, &needed);
  if (extent != Status::kOk) {
    return in.refuse("", at, kDamaged, "sizes and strides of '%s' exceed 64 bits",
                     constant.fqn.c_str());
  }
  const bool empty = numel == 0;
  if (empty ? static_cast<uint64_t>(constant.storage_offset) > storage.nbytes / itemsize
            : needed > storage.nbytes) {
    return in.refuse("", at, kDamaged,
                     "'%s' reaches to byte %zu of storage '%s', which has %llu bytes",
                     constant.fqn.c_str(),
                     empty ? static_cast<size_t>(constant.storage_offset) * itemsize : needed,
                     storage.key.c_str(), static_cast<unsigned long long>(storage.nbytes));
  }
  return Status::kOk;
}

Status read_counts(ByteReader& in, const char* list, std::vector<int64_t>* ret) {
  const size_t at = in.offset();
  AOTIP_RETURN_IF_FAILED(
      in.items(list, 8, ret, [&](int64_t* value) { return in.count64("", value); }));
  return ret->size() <= static_cast<size_t>(Tensor::kMaxDims)
             ? Status::kOk
             : in.refuse(list, at, kDamaged, "%zu dims, expected at most %lld", ret->size(),
                         static_cast<long long>(Tensor::kMaxDims));
}

Status read_constant(ByteReader& in, const std::vector<StorageRef>& storages,
                     std::set<std::string>* names, ConstantRef* constant) {
  const size_t start = in.offset();
  AOTIP_RETURN_IF_FAILED(in.str("fqn", &constant->fqn));
  if (!names->insert(constant->fqn).second) {
    return in.refuse("fqn", start, kDamaged, "'%s' is listed twice, expected once",
                     constant->fqn.c_str());
  }
  size_t at = in.offset();
  AOTIP_RETURN_IF_FAILED(in.u32("storage", &constant->storage));
  if (constant->storage >= storages.size()) {
    return in.refuse("storage", at, kDamaged, "index %u is out of range, %zu storages",
                     constant->storage, storages.size());
  }
  AOTIP_RETURN_IF_FAILED(read_dtype(in, &constant->dtype));
  AOTIP_RETURN_IF_FAILED(read_choice(in, "kind", 0, 4, &constant->kind));
  AOTIP_RETURN_IF_FAILED(read_counts(in, "sizes", &constant->sizes));
  at = in.offset();
  AOTIP_RETURN_IF_FAILED(read_counts(in, "strides", &constant->strides));
  if (constant->strides.size() != constant->sizes.size()) {
    return in.refuse("strides", at, kDamaged, "%zu strides for %zu sizes, expected as many",
                     constant->strides.size(), constant->sizes.size());
  }
  AOTIP_RETURN_IF_FAILED(in.count64("storage_offset", &constant->storage_offset));
  return check_extent(in, *constant, storages[constant->storage], start);
}

Status read_bounds(ByteReader& in, DimBounds* dim) {
  const size_t at = in.offset();
  AOTIP_RETURN_IF_FAILED(in.count64("min", &dim->min));
  AOTIP_RETURN_IF_FAILED(in.i64("max", &dim->max));
  return dim->min <= dim->max
             ? Status::kOk
             : in.refuse("", at, kDamaged, "min %lld is above max %lld",
                         static_cast<long long>(dim->min), static_cast<long long>(dim->max));
}

bool is_permutation(std::vector<uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != i) {
      return false;
    }
  }
  return true;
}

Status read_value(ByteReader& in, ValueSpec* spec) {
  const size_t start = in.offset();
  AOTIP_RETURN_IF_FAILED(read_choice(in, "kind", 0, 4, &spec->kind));
  const bool tensor = spec->kind == ValueKind::kTensor;
  if (tensor) {
    AOTIP_RETURN_IF_FAILED(read_dtype(in, &spec->dtype));
  } else {
    AOTIP_RETURN_IF_FAILED(in.u32("dtype", &spec->dtype));
  }
  AOTIP_RETURN_IF_FAILED(
      in.items("dims", 16, &spec->dims, [&](DimBounds* dim) { return read_bounds(in, dim); }));
  const size_t at = in.offset();
  AOTIP_RETURN_IF_FAILED(
      in.items("dim_order", 4, &spec->dim_order, [&](uint32_t* dim) { return in.u32("", dim); }));
  if (!tensor && (spec->dtype != kNoDType || !spec->dims.empty() || !spec->dim_order.empty())) {
    return in.refuse("", start, kDamaged,
                     "no tensor, but dtype %u and %zu dims, expected dtype %u and none",
                     spec->dtype, spec->dims.size(), kNoDType);
  }
  if (spec->dims.size() > static_cast<size_t>(Tensor::kMaxDims)) {
    return in.refuse("dims", start, kDamaged, "%zu dims, expected at most %lld", spec->dims.size(),
                     static_cast<long long>(Tensor::kMaxDims));
  }
  if (spec->dim_order.size() != spec->dims.size() || !is_permutation(spec->dim_order)) {
    return in.refuse("dim_order", at, kDamaged,
                     "%zu numbers that are no permutation of the %zu dims", spec->dim_order.size(),
                     spec->dims.size());
  }
  return Status::kOk;
}

Status read_body(ByteReader& in, Payload* ret) {
  AOTIP_RETURN_IF_FAILED(in.str("device", &ret->device));
  AOTIP_RETURN_IF_FAILED(in.str("method", &ret->method));
  AOTIP_RETURN_IF_FAILED(in.items("built_with", 8, &ret->built_with, [&](auto* entry) {
    AOTIP_RETURN_IF_FAILED(in.str("name", &entry->first));
    return in.str("version", &entry->second);
  }));
  AOTIP_RETURN_IF_FAILED(read_targets(in, ret->version, &ret->targets));
  const size_t storage_nbytes = ret->version == kFirstPayloadVersion ? 12 : 12 + sizeof(Sha256);
  AOTIP_RETURN_IF_FAILED(in.items("storages", storage_nbytes, &ret->storages, [&](auto* storage) {
    AOTIP_RETURN_IF_FAILED(in.str("key", &storage->key));
    AOTIP_RETURN_IF_FAILED(in.u64("nbytes", &storage->nbytes));
    return read_digest(in, "sha256", ret->version, &storage->sha256);
  }));
  std::set<std::string> names;
  AOTIP_RETURN_IF_FAILED(in.items("constants", 32, &ret->constants, [&](ConstantRef* constant) {
    return read_constant(in, ret->storages, &names, constant);
  }));
  const auto read_spec = [&](ValueSpec* spec) { return read_value(in, spec); };
  AOTIP_RETURN_IF_FAILED(in.items("inputs", 16, &ret->inputs, read_spec));
  AOTIP_RETURN_IF_FAILED(in.items("outputs", 16, &ret->outputs, read_spec));
  return in.remaining() == 0
             ? Status::kOk
             : in.refuse("body", in.offset(), kDamaged,
                         "%zu bytes follow the last field, expected none", in.remaining());
}

}  // namespace

void Payload::demand_digests() noexcept {
  for (TargetArtifact& target : targets) {
    target.is_signed = true;
  }
  for (StorageRef& storage : storages) {
    storage.is_signed = true;
  }
}

Status read_payload(const void* data, size_t nbytes, Payload* ret) noexcept {
  try {
    const uint8_t* bytes = static_cast<const uint8_t*>(data);
    Payload payload;
    size_t body_end = 0;
    AOTIP_RETURN_IF_FAILED(read_header(bytes, bytes != nullptr ? nbytes : 0, &payload, &body_end));
    ByteReader reader(bytes, body_end, kHeaderNbytes);
    AOTIP_RETURN_IF_FAILED(read_body(reader, &payload));
    if (payload.version != kFirstPayloadVersion) {
      AOTIP_RETURN_IF_FAILED(read_signatures(bytes, nbytes, &payload.signatures));
    }
    *ret = std::move(payload);
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("payload: %s", error.what());
  }
}

}  // namespace aoti_plugins
