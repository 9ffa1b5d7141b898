#include "delegate/payload.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <set>

#include "delegate/byte_reader.h"
#include "delegate/crc32.h"
#include "slim/dtype.h"
#include "slim/tensor.h"

#define AOTIP_DAMAGED " The program is damaged: lower the model again."
#define AOTIP_NEWER " Install the aoti_plugins that made the program, or lower the model again."

namespace aoti_plugins {
namespace {

constexpr char kMagic[8] = {'A', 'O', 'T', 'I', 'P', 'L', 'U', 'G'};
constexpr size_t kHeaderNbytes = 32;
constexpr size_t kHeaderCrcOffset = 28;
constexpr size_t kBodyCrcOffset = 24;

bool is_payload_dtype(uint32_t code) {
  switch (code) {
    case kUInt8: case kInt8: case kInt16: case kInt32: case kInt64: case kFloat16: case kFloat32:
    case kFloat64: case kComplex64: case kComplex128: case kBool: case kBFloat16:
    case kFloat8E5M2: case kFloat8E4M3FN: case kUInt16: case kUInt32: case kUInt64:
      return true;
    default:
      return false;
  }
}

Status read_header(const uint8_t* data, size_t nbytes) {
  AOTIP_CHECK(nbytes >= kHeaderNbytes,
              "payload: %zu bytes, expected a header of %zu bytes." AOTIP_DAMAGED, nbytes,
              kHeaderNbytes);
  AOTIP_CHECK(std::memcmp(data, kMagic, sizeof(kMagic)) == 0,
              "payload: magic at byte 0 is %02x%02x%02x%02x%02x%02x%02x%02x, expected AOTIPLUG. These "
              "bytes were not made by aoti_plugins, or the program is damaged: lower the model again.",
              data[0], data[1], data[2], data[3], data[4], data[5], data[6], data[7]);
  ByteReader reader(data, kHeaderNbytes, sizeof(kMagic));
  uint32_t version = 0;
  uint32_t flags = 0;
  uint64_t total = 0;
  uint32_t body_crc = 0;
  uint32_t header_crc = 0;
  AOTIP_RETURN_IF_FAILED(reader.u32("version", &version));
  AOTIP_RETURN_IF_FAILED(reader.u32("flags", &flags));
  AOTIP_RETURN_IF_FAILED(reader.u64("total_nbytes", &total));
  AOTIP_RETURN_IF_FAILED(reader.u32("body crc32", &body_crc));
  AOTIP_RETURN_IF_FAILED(reader.u32("header crc32", &header_crc));
  const uint32_t header_found = crc32(data, kHeaderCrcOffset);
  AOTIP_CHECK(version == kPayloadVersion,
              "payload: version at byte 8 is %u, this runtime reads version %u." AOTIP_NEWER,
              version, kPayloadVersion);
  AOTIP_CHECK(header_found == header_crc,
              "payload: crc32 of the header is %08x, expected %08x (at byte %zu)." AOTIP_DAMAGED,
              header_found, header_crc, kHeaderCrcOffset);
  AOTIP_CHECK(flags == 0, "payload: flags at byte 12 are %08x, this runtime knows none." AOTIP_NEWER,
              flags);
  AOTIP_CHECK(total >= nbytes || total < kHeaderNbytes,
              "payload: %zu bytes, but total_nbytes at byte 16 is %llu: %llu bytes trail." AOTIP_DAMAGED,
              nbytes, static_cast<unsigned long long>(total),
              static_cast<unsigned long long>(nbytes - total));
  AOTIP_CHECK(total == nbytes,
              "payload: %zu bytes, but total_nbytes at byte 16 is %llu: it was cut off." AOTIP_DAMAGED,
              nbytes, static_cast<unsigned long long>(total));
  const uint32_t body_found = crc32(data + kHeaderNbytes, nbytes - kHeaderNbytes);
  AOTIP_CHECK(body_found == body_crc,
              "payload: crc32 of the body is %08x, expected %08x (at byte %zu)." AOTIP_DAMAGED,
              body_found, body_crc, kBodyCrcOffset);
  return Status::kOk;
}

Status read_strings(ByteReader& reader, const char* list, const char* item,
                    std::vector<std::string>* ret) {
  uint32_t count = 0;
  AOTIP_RETURN_IF_FAILED(reader.count(list, 4, &count));
  ret->resize(count);
  for (std::string& text : *ret) {
    AOTIP_RETURN_IF_FAILED(reader.str(item, &text));
  }
  return Status::kOk;
}

Status read_target(ByteReader& reader, TargetArtifact* target) {
  AOTIP_RETURN_IF_FAILED(reader.str("target name", &target->name));
  AOTIP_RETURN_IF_FAILED(reader.str("target machine", &target->machine));
  AOTIP_RETURN_IF_FAILED(
      read_strings(reader, "target features", "target feature", &target->features));
  const size_t at = reader.offset();
  uint32_t kind = 0;
  AOTIP_RETURN_IF_FAILED(reader.u32("artifact kind", &kind));
  AOTIP_CHECK(kind == static_cast<uint32_t>(ArtifactKind::kSharedObject),
              "payload: artifact kind at byte %zu is %u, this runtime runs kind 1 (shared object)." AOTIP_NEWER,
              at, kind);
  AOTIP_RETURN_IF_FAILED(reader.str("artifact key", &target->key));
  AOTIP_RETURN_IF_FAILED(reader.u64("artifact nbytes", &target->nbytes));
  AOTIP_RETURN_IF_FAILED(reader.u32("artifact crc32", &target->crc32));
  uint32_t libraries = 0;
  AOTIP_RETURN_IF_FAILED(reader.count("libraries", 12, &libraries));
  target->libraries.resize(libraries);
  for (LibraryRef& library : target->libraries) {
    AOTIP_RETURN_IF_FAILED(reader.str("library soname", &library.soname));
    AOTIP_RETURN_IF_FAILED(reader.str("library version", &library.version));
    AOTIP_RETURN_IF_FAILED(reader.str("library origin", &library.origin));
  }
  return read_strings(reader, "symbols", "symbol", &target->symbols);
}

Status read_targets(ByteReader& reader, std::vector<TargetArtifact>* targets) {
  const size_t at = reader.offset();
  uint32_t count = 0;
  AOTIP_RETURN_IF_FAILED(reader.count("targets", 36, &count));
  AOTIP_CHECK(count >= 1, "payload: count of targets at byte %zu is 0, expected 1 or more." AOTIP_DAMAGED,
              at);
  targets->resize(count);
  std::set<std::string> names;
  for (TargetArtifact& target : *targets) {
    const size_t start = reader.offset();
    AOTIP_RETURN_IF_FAILED(read_target(reader, &target));
    AOTIP_CHECK(names.insert(target.name).second,
                "payload: target name '%s' at byte %zu is there twice, expected unique names." AOTIP_DAMAGED,
                target.name.c_str(), start);
  }
  return Status::kOk;
}

Status read_numbers(ByteReader& reader, const char* list, const char* item,
                    std::vector<int64_t>* ret) {
  uint32_t count = 0;
  AOTIP_RETURN_IF_FAILED(reader.count(list, 8, &count));
  ret->resize(count);
  for (int64_t& value : *ret) {
    const size_t at = reader.offset();
    AOTIP_RETURN_IF_FAILED(reader.i64(item, &value));
    AOTIP_CHECK(value >= 0, "payload: %s at byte %zu is %lld, expected 0 or more." AOTIP_DAMAGED, item,
                at, static_cast<long long>(value));
  }
  return Status::kOk;
}

Status check_extent(const ConstantRef& constant, const StorageRef& storage, size_t at) {
  int64_t numel = 0;
  size_t nbytes = 0;
  const Status extent = storage_extent(static_cast<int64_t>(constant.sizes.size()),
                                       constant.sizes.data(), constant.strides.data(),
                                       constant.storage_offset,
                                       element_nbytes(static_cast<int32_t>(constant.dtype)), &numel,
                                       &nbytes);
  AOTIP_CHECK(extent == Status::kOk,
              "payload: constant '%s' at byte %zu has sizes and strides that exceed 64 bits." AOTIP_DAMAGED,
              constant.fqn.c_str(), at);
  AOTIP_CHECK(nbytes <= storage.nbytes,
              "payload: constant '%s' at byte %zu ends at byte %zu of its storage '%s', which has %llu "
              "bytes." AOTIP_DAMAGED,
              constant.fqn.c_str(), at, nbytes, storage.key.c_str(),
              static_cast<unsigned long long>(storage.nbytes));
  return Status::kOk;
}

Status read_constant(ByteReader& reader, const std::vector<StorageRef>& storages,
                     ConstantRef* constant) {
  const size_t start = reader.offset();
  AOTIP_RETURN_IF_FAILED(reader.str("constant fqn", &constant->fqn));
  size_t at = reader.offset();
  AOTIP_RETURN_IF_FAILED(reader.u32("constant storage", &constant->storage));
  AOTIP_CHECK(constant->storage < storages.size(),
              "payload: storage index of constant '%s' at byte %zu is %u, expected less than %zu." AOTIP_DAMAGED,
              constant->fqn.c_str(), at, constant->storage, storages.size());
  at = reader.offset();
  AOTIP_RETURN_IF_FAILED(reader.u32("constant dtype", &constant->dtype));
  AOTIP_CHECK(is_payload_dtype(constant->dtype),
              "payload: dtype of constant '%s' at byte %zu is %u, which is not a known dtype." AOTIP_NEWER,
              constant->fqn.c_str(), at, constant->dtype);
  at = reader.offset();
  uint32_t kind = 0;
  AOTIP_RETURN_IF_FAILED(reader.u32("constant kind", &kind));
  AOTIP_CHECK(kind <= 3, "payload: kind of constant '%s' at byte %zu is %u, expected 0 to 3." AOTIP_NEWER,
              constant->fqn.c_str(), at, kind);
  constant->kind = static_cast<ConstantKind>(kind);
  AOTIP_RETURN_IF_FAILED(read_numbers(reader, "constant sizes", "constant size", &constant->sizes));
  at = reader.offset();
  AOTIP_RETURN_IF_FAILED(
      read_numbers(reader, "constant strides", "constant stride", &constant->strides));
  AOTIP_CHECK(constant->strides.size() == constant->sizes.size(),
              "payload: constant '%s' has %zu strides at byte %zu, expected %zu as its sizes." AOTIP_DAMAGED,
              constant->fqn.c_str(), constant->strides.size(), at, constant->sizes.size());
  AOTIP_CHECK(constant->sizes.size() <= static_cast<size_t>(Tensor::kMaxDims),
              "payload: constant '%s' at byte %zu has %zu dims, expected at most %lld." AOTIP_DAMAGED,
              constant->fqn.c_str(), start, constant->sizes.size(),
              static_cast<long long>(Tensor::kMaxDims));
  at = reader.offset();
  AOTIP_RETURN_IF_FAILED(reader.i64("constant storage_offset", &constant->storage_offset));
  AOTIP_CHECK(constant->storage_offset >= 0,
              "payload: storage_offset of constant '%s' at byte %zu is %lld, expected 0 or more." AOTIP_DAMAGED,
              constant->fqn.c_str(), at, static_cast<long long>(constant->storage_offset));
  return check_extent(*constant, storages[constant->storage], start);
}

Status read_dim_order(ByteReader& reader, const char* what, ValueSpec* spec) {
  const size_t at = reader.offset();
  uint32_t count = 0;
  AOTIP_RETURN_IF_FAILED(reader.count("dim_order", 4, &count));
  AOTIP_CHECK(count == spec->dims.size(),
              "payload: dim_order of %s at byte %zu has %u dims, expected %zu." AOTIP_DAMAGED, what, at,
              count, spec->dims.size());
  spec->dim_order.resize(count);
  std::vector<bool> seen(count, false);
  for (uint32_t& dim : spec->dim_order) {
    const size_t here = reader.offset();
    AOTIP_RETURN_IF_FAILED(reader.u32("dim_order", &dim));
    AOTIP_CHECK(dim < count && !seen[dim],
                "payload: dim_order of %s at byte %zu is %u, which makes it no permutation of %u dims." AOTIP_DAMAGED,
                what, here, dim, count);
    seen[dim] = true;
  }
  return Status::kOk;
}

Status read_value_spec(ByteReader& reader, const char* what, ValueSpec* spec) {
  size_t at = reader.offset();
  uint32_t kind = 0;
  AOTIP_RETURN_IF_FAILED(reader.u32("value kind", &kind));
  AOTIP_CHECK(kind <= 4, "payload: kind of %s at byte %zu is %u, expected 0 to 4." AOTIP_NEWER, what, at,
              kind);
  spec->kind = static_cast<ValueKind>(kind);
  const bool tensor = spec->kind == ValueKind::kTensor;
  at = reader.offset();
  AOTIP_RETURN_IF_FAILED(reader.u32("value dtype", &spec->dtype));
  AOTIP_CHECK(tensor ? is_payload_dtype(spec->dtype) : spec->dtype == kNoDType,
              "payload: dtype of %s at byte %zu is %u, expected %s." AOTIP_NEWER, what, at, spec->dtype,
              tensor ? "a known dtype" : "255, it is no tensor");
  at = reader.offset();
  uint32_t dims = 0;
  AOTIP_RETURN_IF_FAILED(reader.count("dims", 16, &dims));
  AOTIP_CHECK(dims <= static_cast<uint32_t>(Tensor::kMaxDims) && (tensor || dims == 0),
              "payload: %s at byte %zu has %u dims, expected %s." AOTIP_DAMAGED, what, at, dims,
              tensor ? "at most 64" : "none, it is no tensor");
  spec->dims.resize(dims);
  for (DimBounds& dim : spec->dims) {
    at = reader.offset();
    AOTIP_RETURN_IF_FAILED(reader.i64("dim min", &dim.min));
    AOTIP_RETURN_IF_FAILED(reader.i64("dim max", &dim.max));
    AOTIP_CHECK(dim.min >= 0 && dim.min <= dim.max,
                "payload: bounds of %s at byte %zu are %lld to %lld, expected 0 <= min <= max." AOTIP_DAMAGED,
                what, at, static_cast<long long>(dim.min), static_cast<long long>(dim.max));
  }
  return read_dim_order(reader, what, spec);
}

Status read_value_specs(ByteReader& reader, const char* list, const char* what,
                        std::vector<ValueSpec>* specs) {
  uint32_t count = 0;
  AOTIP_RETURN_IF_FAILED(reader.count(list, 16, &count));
  specs->resize(count);
  for (ValueSpec& spec : *specs) {
    AOTIP_RETURN_IF_FAILED(read_value_spec(reader, what, &spec));
  }
  return Status::kOk;
}

Status read_body(ByteReader& reader, Payload* ret) {
  AOTIP_RETURN_IF_FAILED(reader.str("device", &ret->device));
  AOTIP_RETURN_IF_FAILED(reader.str("method", &ret->method));
  uint32_t count = 0;
  AOTIP_RETURN_IF_FAILED(reader.count("built_with", 8, &count));
  ret->built_with.resize(count);
  for (auto& [name, version] : ret->built_with) {
    AOTIP_RETURN_IF_FAILED(reader.str("built_with name", &name));
    AOTIP_RETURN_IF_FAILED(reader.str("built_with version", &version));
  }
  AOTIP_RETURN_IF_FAILED(read_targets(reader, &ret->targets));
  AOTIP_RETURN_IF_FAILED(reader.count("storages", 12, &count));
  ret->storages.resize(count);
  for (StorageRef& storage : ret->storages) {
    AOTIP_RETURN_IF_FAILED(reader.str("storage key", &storage.key));
    AOTIP_RETURN_IF_FAILED(reader.u64("storage nbytes", &storage.nbytes));
  }
  AOTIP_RETURN_IF_FAILED(reader.count("constants", 32, &count));
  ret->constants.resize(count);
  for (ConstantRef& constant : ret->constants) {
    AOTIP_RETURN_IF_FAILED(read_constant(reader, ret->storages, &constant));
  }
  AOTIP_RETURN_IF_FAILED(read_value_specs(reader, "inputs", "an input", &ret->inputs));
  AOTIP_RETURN_IF_FAILED(read_value_specs(reader, "outputs", "an output", &ret->outputs));
  AOTIP_CHECK(reader.remaining() == 0,
              "payload: %zu bytes trail after the last output at byte %zu." AOTIP_DAMAGED,
              reader.remaining(), reader.offset());
  return Status::kOk;
}

}  // namespace

Status read_payload(const void* data, size_t nbytes, Payload* ret) noexcept {
  try {
    AOTIP_CHECK(data != nullptr, "payload: no bytes at all." AOTIP_DAMAGED);
    const uint8_t* bytes = static_cast<const uint8_t*>(data);
    AOTIP_RETURN_IF_FAILED(read_header(bytes, nbytes));
    ByteReader reader(bytes, nbytes, kHeaderNbytes);
    Payload payload;
    AOTIP_RETURN_IF_FAILED(read_body(reader, &payload));
    *ret = std::move(payload);
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("payload: %s", error.what());
  }
}

}  // namespace aoti_plugins
