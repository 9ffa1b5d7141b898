#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "delegate/payload_signatures.h"
#include "delegate/sha256.h"
#include "slim/status.h"

namespace aoti_plugins {

/// What a lowered partition says about itself. The format, version 3, is in docs/payload.md;
/// written by aoti_plugins/payload/codec.py, which must match.

inline constexpr uint32_t kPayloadVersion = 3;
/// The oldest version that is read: no digests of SHA-256, no room for signatures.
inline constexpr uint32_t kFirstPayloadVersion = 1;
/// The first that says what kernels come from.
inline constexpr uint32_t kKernelsPayloadVersion = 3;
inline constexpr uint8_t kNoDType = 255;

/// Flags: what of float32 may be rounded to TF32, and whether calls become CUDA graphs.
inline constexpr uint32_t kTf32Matmul = 1;
inline constexpr uint32_t kTf32Convolution = 2;
inline constexpr uint32_t kCudaGraphs = 4;
/// It is for several ranks; rank_storages.h says what of its weights is each rank's.
inline constexpr uint32_t kRanks = 8;
inline constexpr uint32_t kKnownFlags = kTf32Matmul | kTf32Convolution | kCudaGraphs | kRanks;

enum class ArtifactKind : uint32_t { kSharedObject = 1 };
enum class ConstantKind : uint32_t {
  kParameter = 0,
  kBuffer = 1,
  kMutableBuffer = 2,  ///< methods of one program share it by name
  kTensor = 3,
  kOwnBuffer = 4,  ///< a mutable buffer that no other delegate sees
};
enum class ValueKind : uint32_t { kTensor = 0, kInt = 1, kFloat = 2, kBool = 3, kNone = 4 };

/// A kernel library that the blob needs beside this runtime.
struct LibraryRef {
  std::string soname;
  std::string version;
  std::string origin;
};

/// A kernel of the model at one place that calls it: what profiles show, the delegate does not look
/// at it. Bytes and operations are those of the sizes that the model was exported with.
struct KernelRef {
  std::string name;                  ///< as the blob says it to `aotip_kernel_begin()`
  std::vector<std::string> ops;      ///< of the model, whose work it does
  std::vector<std::string> modules;  ///< that these are in
  std::vector<std::string> lines;    ///< of source that these come from
  uint64_t nbytes_read = 0;
  uint64_t nbytes_written = 0;
  uint64_t flops = 0;  ///< 0: not known
};

/// Code for one kind of machine.
struct TargetArtifact {
  std::string name;
  std::string machine;
  std::vector<std::string> features;
  ArtifactKind kind = ArtifactKind::kSharedObject;
  std::string key;
  uint64_t nbytes = 0;
  std::optional<Sha256> sha256;  ///< none in version 1
  uint32_t crc32 = 0;            ///< of version 1
  bool is_signed = false;        ///< the digest is somebody's word: the bytes must not change on us
  std::vector<LibraryRef> libraries;
  std::vector<std::string> symbols;
  std::vector<KernelRef> kernels;  ///< none before version 3
  /// The blob calls shims, cudart and the driver by their own names; see plain_blob.h. `nbytes` and
  /// the digests say nothing then. Never so in our own payloads.
  bool plain_names = false;
};

/// One named-data blob with the bytes of a storage.
struct StorageRef {
  std::string key;
  uint64_t nbytes = 0;
  std::optional<Sha256> sha256{};  ///< none in version 1
  bool is_signed = false;          ///< the digest is somebody's word: it has to be compared
  // Both are always as here in our own payloads.
  bool on_host = false;         ///< whatever the delegate's device
  const void* owner = nullptr;  ///< names the program in place of the map that it is read from
};

/// A constant of the model: a view of a storage. Sizes, strides and offset count elements.
struct ConstantRef {
  std::string fqn;
  uint32_t storage = 0;
  uint32_t dtype = 0;
  ConstantKind kind = ConstantKind::kParameter;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;
};

struct DimBounds {
  int64_t min = 0;
  int64_t max = 0;
};

/// What an input or output may be. A tensor without a dtype is as the program has it.
struct ValueSpec {
  ValueKind kind = ValueKind::kTensor;
  uint32_t dtype = kNoDType;
  std::vector<DimBounds> dims;
  std::vector<uint32_t> dim_order;
};

/// What the delegate knows of a program: read from our own payload, or from what upstream's backend
/// stores (cuda/upstream/upstream_program.h).
struct Payload {
  uint32_t version = kPayloadVersion;
  uint32_t flags = 0;
  std::string device;
  std::string method;
  std::vector<std::pair<std::string, std::string>> built_with;
  std::vector<TargetArtifact> targets;
  std::vector<StorageRef> storages;
  std::vector<ConstantRef> constants;
  std::vector<ValueSpec> inputs;
  std::vector<ValueSpec> outputs;
  std::vector<PayloadSignature> signatures;  ///< those that were found, not whether they are right

  // All three are always as here in our own payloads.
  bool describes_values = true;  ///< false: how many values there are the model says, what they are
                                 ///< the program's tensors
  bool shares_buffers = false;   ///< what the model writes to other delegates may see
  std::string packed_weights;    ///< key of all constants in the model's own order; none when empty

  /// The payload was signed: what it says of blobs is compared with them before they are used.
  void demand_digests() noexcept;
};

/// Reads and checks a payload. Whatever the bytes are, it never reads outside of them; what it does
/// not know it refuses, with a reason that names the byte offset, what was found and expected, and
/// what to do.
Status read_payload(const void* data, size_t nbytes, Payload* ret) noexcept;

}  // namespace aoti_plugins
