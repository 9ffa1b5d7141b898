#include "delegate/trust.h"

#include <aoti_plugins/delegate.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>

#include "delegate/delegate_backend.h"
#include "delegate/ed25519.h"
#include "delegate/payload.h"

namespace aoti_plugins {
namespace {

/// Files with keys, separated by colons, of which one has to have signed every program.
constexpr char kVariable[] = "AOTI_PLUGINS_REQUIRE_SIGNATURES";
constexpr char kSign[] = "Sign it with 'aoti-plugins sign', or see docs/security.md.";

using Keys = std::vector<Ed25519Key>;

Status read_key_file(const std::string& path, Keys* keys) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  AOTIP_CHECK(file.good() || file.eof(), "key file '%s' cannot be read: %s", path.c_str(),
              std::strerror(errno));
  return read_public_keys(text, path, keys);
}

Status read_key_files(const char* paths, Keys* keys) {
  std::istringstream list(paths);
  for (std::string path; std::getline(list, path, ':');) {
    AOTIP_RETURN_IF_FAILED(read_key_file(path, keys));
  }
  AOTIP_CHECK(!keys->empty(), "it names no file");
  return Status::kOk;
}

/// What this process demands. What its environment does is the first demand.
class Demands {
 public:
  Demands() {
    const char* const paths = std::getenv(kVariable);
    if (paths == nullptr) {
      return;
    }
    Keys keys;
    if (read_key_files(paths, &keys) != Status::kOk) {
      refusal_ = std::string(kVariable) + " asks for signatures, but " + last_failure();
    }
    add(std::move(keys));
  }

  void add(Keys keys) {
    const std::lock_guard<std::mutex> lock(mutex_);
    demanded_.store(true);
    keys_.push_back(std::move(keys));
  }

  void refuse(const std::string& reason) {
    demanded_.store(true);
    const std::lock_guard<std::mutex> lock(mutex_);
    refusal_ = reason;
  }

  bool any() const noexcept { return demanded_.load(); }

  Status check(const uint8_t* data, size_t nbytes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    AOTIP_CHECK(refusal_.empty(), "no program is run: %s", refusal_.c_str());
    Payload payload;
    AOTIP_RETURN_IF_FAILED(read_payload(data, nbytes, &payload));
    AOTIP_CHECK(payload.version != kFirstPayloadVersion,
                "the program has no signature, and this process runs signed programs only: its "
                "payload is of version 1, which has no room for any. Lower the model again.");
    AOTIP_CHECK(!payload.signatures.empty(),
                "the program has no signature, and this process runs signed programs only. %s",
                kSign);
    const std::vector<uint8_t> message = message_to_sign(data, nbytes);
    for (const Keys& keys : keys_) {
      AOTIP_RETURN_IF_FAILED(check_one(payload.signatures, keys, message));
    }
    return Status::kOk;
  }

 private:
  static Status check_one(const std::vector<PayloadSignature>& signatures, const Keys& keys,
                          const std::vector<uint8_t>& message) {
    size_t trusted = 0;
    for (const PayloadSignature& one : signatures) {
      if (std::find(keys.begin(), keys.end(), one.key) == keys.end()) {
        continue;
      }
      bool right = false;
      AOTIP_RETURN_IF_FAILED(
          verify_ed25519(one.key, message.data(), message.size(), one.signature.data(), &right));
      AOTIP_CHECK(right,
                  "a signature of the program is wrong: the payload is not the one that was "
                  "signed. Get the program again from who signed it.");
      ++trusted;
    }
    AOTIP_CHECK(trusted > 0,
                "the program is signed by %zu key%s, of which none is one of the %zu that this "
                "process trusts. %s",
                signatures.size(), signatures.size() == 1 ? "" : "s", keys.size(), kSign);
    return Status::kOk;
  }

  std::mutex mutex_;
  std::atomic<bool> demanded_{false};
  std::vector<Keys> keys_;
  std::string refusal_;
};

Demands& demands() {
  // Never destroyed: programs may be loaded by destructors that run at exit.
  static Demands* const instance = new Demands();
  return *instance;
}

}  // namespace

void require_signatures(std::vector<Ed25519Key> keys) {
  demands().add(std::move(keys));
}

void refuse_programs(const std::string& reason) noexcept {
  demands().refuse(reason);
}

bool signatures_required() noexcept {
  return demands().any();
}

Status check_signatures(const void* payload, size_t nbytes) noexcept {
  try {
    return demands().check(static_cast<const uint8_t*>(payload), nbytes);
  } catch (const std::exception& error) {
    return fail("signatures cannot be checked: %s", error.what());
  }
}

}  // namespace aoti_plugins

using ::aoti_plugins::Ed25519Key;

int32_t aotip_require_signatures(const uint8_t* keys, size_t n_keys) {
  if (keys == nullptr && n_keys > 0) {
    aoti_plugins::refuse_programs("aotip_require_signatures was called with keys that are null");
    return 1;
  }
  try {
    std::vector<Ed25519Key> list(n_keys);
    for (size_t i = 0; i < n_keys; ++i) {
      std::memcpy(list[i].data(), keys + i * list[i].size(), list[i].size());
    }
    aoti_plugins::require_signatures(std::move(list));
    return 0;
  } catch (const std::exception&) {
    aoti_plugins::refuse_programs("memory ran out in aotip_require_signatures");
    return 1;
  }
}

int32_t aotip_signatures_required(void) {
  return aoti_plugins::signatures_required() ? 1 : 0;
}

int32_t aotip_verify_signature(const uint8_t* key, const void* message, size_t nbytes,
                               const uint8_t* signature) {
  if (key == nullptr || signature == nullptr || (message == nullptr && nbytes > 0)) {
    return AOTIP_SIGNATURE_WRONG;
  }
  Ed25519Key copy;
  std::memcpy(copy.data(), key, copy.size());
  bool right = false;
  if (aoti_plugins::verify_ed25519(copy, message, nbytes, signature, &right) !=
      aoti_plugins::Status::kOk) {
    aoti_plugins::keep_delegate_error(aoti_plugins::last_failure());
    return AOTIP_SIGNATURE_UNKNOWN;
  }
  return right ? AOTIP_SIGNATURE_RIGHT : AOTIP_SIGNATURE_WRONG;
}
