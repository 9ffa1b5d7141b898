#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "delegate/crc32.h"
#include "delegate/payload.h"

namespace aoti_plugins::testing {

/// Writes payloads for tests, also wrong ones: it checks nothing, and `patch` changes bytes
/// afterwards with the checksums put right again.
class PayloadBuilder {
 public:
  std::vector<uint8_t> body;

  PayloadBuilder& u32(uint32_t value) { return number(value, 4); }
  PayloadBuilder& u64(uint64_t value) { return number(value, 8); }
  PayloadBuilder& i64(int64_t value) { return number(static_cast<uint64_t>(value), 8); }
  PayloadBuilder& str(const std::string& text) {
    u32(static_cast<uint32_t>(text.size()));
    body.insert(body.end(), text.begin(), text.end());
    return *this;
  }

  PayloadBuilder& payload(const Payload& p) {
    version_ = p.version;
    const bool digests = p.version != kFirstPayloadVersion;
    str(p.device).str(p.method).u32(static_cast<uint32_t>(p.built_with.size()));
    for (const auto& [name, version] : p.built_with) {
      str(name).str(version);
    }
    u32(static_cast<uint32_t>(p.targets.size()));
    for (const TargetArtifact& t : p.targets) {
      str(t.name).str(t.machine).strings(t.features).u32(static_cast<uint32_t>(t.kind)).str(t.key);
      u64(t.nbytes);
      digests ? digest(t.sha256) : u32(t.crc32);
      u32(static_cast<uint32_t>(t.libraries.size()));
      for (const LibraryRef& library : t.libraries) {
        str(library.soname).str(library.version).str(library.origin);
      }
      strings(t.symbols);
      if (p.version >= kKernelsPayloadVersion) {
        kernels(t.kernels);
      }
    }
    u32(static_cast<uint32_t>(p.storages.size()));
    for (const StorageRef& s : p.storages) {
      str(s.key).u64(s.nbytes);
      if (digests) {
        digest(s.sha256);
      }
    }
    u32(static_cast<uint32_t>(p.constants.size()));
    for (const ConstantRef& c : p.constants) {
      str(c.fqn).u32(c.storage).u32(c.dtype).u32(static_cast<uint32_t>(c.kind));
      numbers(c.sizes).numbers(c.strides).i64(c.storage_offset);
    }
    return values(p.inputs).values(p.outputs);
  }

  /// The bytes with a header whose checksums are right, and room for signatures where the version
  /// has it.
  std::vector<uint8_t> encode() const { return encode(version_); }
  std::vector<uint8_t> encode(uint32_t version, uint32_t flags = 0,
                              const std::vector<PayloadSignature>& signatures = {}) const {
    const PayloadBuilder end = signature_room(version, signatures);
    PayloadBuilder header;
    const char magic[] = "AOTIPLUG";
    header.body.assign(magic, magic + 8);
    header.u32(version).u32(flags).u64(32 + body.size() + end.body.size());
    header.u32(crc32(body.data(), body.size()));
    header.u32(crc32(header.body.data(), header.body.size()));
    header.body.insert(header.body.end(), body.begin(), body.end());
    header.body.insert(header.body.end(), end.body.begin(), end.body.end());
    return header.body;
  }

  PayloadBuilder& kernels(const std::vector<KernelRef>& list) {
    u32(static_cast<uint32_t>(list.size()));
    for (const KernelRef& k : list) {
      str(k.name).strings(k.ops).strings(k.modules).strings(k.lines);
      u64(k.nbytes_read).u64(k.nbytes_written).u64(k.flops);
    }
    return *this;
  }

 private:
  uint32_t version_ = kPayloadVersion;

  static PayloadBuilder signature_room(uint32_t version,
                                       const std::vector<PayloadSignature>& signatures) {
    PayloadBuilder room;
    if (version == kFirstPayloadVersion) {
      return room;
    }
    for (const PayloadSignature& one : signatures) {
      room.body.insert(room.body.end(), one.key.begin(), one.key.end());
      room.body.insert(room.body.end(), one.signature.begin(), one.signature.end());
    }
    room.body.resize(kSignaturesNbytes - 4);
    return room.u32(crc32(room.body.data(), room.body.size()));
  }
  PayloadBuilder& digest(const std::optional<Sha256>& value) {
    const Sha256 bytes = value.value_or(Sha256{});
    body.insert(body.end(), bytes.begin(), bytes.end());
    return *this;
  }
  PayloadBuilder& number(uint64_t value, int nbytes) {
    for (int i = 0; i < nbytes; ++i) {
      body.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
    return *this;
  }
  PayloadBuilder& strings(const std::vector<std::string>& list) {
    u32(static_cast<uint32_t>(list.size()));
    for (const std::string& text : list) {
      str(text);
    }
    return *this;
  }
  PayloadBuilder& numbers(const std::vector<int64_t>& list) {
    u32(static_cast<uint32_t>(list.size()));
    for (int64_t value : list) {
      i64(value);
    }
    return *this;
  }
  PayloadBuilder& values(const std::vector<ValueSpec>& list) {
    u32(static_cast<uint32_t>(list.size()));
    for (const ValueSpec& v : list) {
      u32(static_cast<uint32_t>(v.kind)).u32(v.dtype).u32(static_cast<uint32_t>(v.dims.size()));
      for (const DimBounds& dim : v.dims) {
        i64(dim.min).i64(dim.max);
      }
      u32(static_cast<uint32_t>(v.dim_order.size()));
      for (uint32_t dim : v.dim_order) {
        u32(dim);
      }
    }
    return *this;
  }
};

/// A payload for tests/fake_model; `blob_nbytes` and `blob_sha256` describe the blob.
inline Payload fake_payload(uint64_t blob_nbytes = 4, const Sha256& blob_sha256 = {}) {
  Payload p;
  p.device = "cpu";
  p.method = "forward";
  p.built_with = {{"torch", "2.13.0"}, {"aoti_plugins", "0.1.0"}};
  TargetArtifact target;
  target.name = "here";
#if defined(__aarch64__)
  target.machine = "aarch64";
#else
  target.machine = "x86_64";
#endif
  target.key = "so_blob";
  target.nbytes = blob_nbytes;
  target.sha256 = blob_sha256;
  target.symbols = {"aoti_torch_empty_strided", "aoti_torch_get_data_ptr"};
  p.targets = {target};
  p.storages = {{"weights", 16}, {"state", 8}};
  p.constants = {{"layer.scale", 0, 6, ConstantKind::kParameter, {3}, {1}, 1},
                 {"calls", 1, 4, ConstantKind::kMutableBuffer, {}, {}, 0}};
  p.inputs = {{ValueKind::kTensor, 6, {{0, 8}, {3, 3}}, {0, 1}}, {ValueKind::kInt, 255, {}, {}}};
  p.outputs = {{ValueKind::kTensor, 6, {{0, 8}, {3, 3}}, {0, 1}}, {ValueKind::kInt, 255, {}, {}}};
  return p;
}

}  // namespace aoti_plugins::testing
