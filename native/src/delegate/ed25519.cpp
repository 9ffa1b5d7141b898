#include "delegate/ed25519.h"

#include <dlfcn.h>

#include <string>

namespace aoti_plugins {
namespace {

#if defined(__APPLE__)
// macOS ends a process that opens its own libcrypto; Homebrew's have a version in their names.
constexpr const char* kCryptoNames[] = {"libcrypto.3.dylib",
                                        "/opt/homebrew/opt/openssl@3/lib/libcrypto.3.dylib"};
constexpr const char* kSodiumNames[] = {"libsodium.dylib", "/opt/homebrew/lib/libsodium.dylib"};
constexpr char kInstall[] = "brew install openssl@3, or libsodium";
#else
constexpr const char* kCryptoNames[] = {"libcrypto.so.3"};
constexpr const char* kSodiumNames[] = {"libsodium.so.26", "libsodium.so.23"};
constexpr char kInstall[] =
    "Debian, Ubuntu: apt install libssl3 (or libsodium23); Fedora: dnf install openssl-libs (or "
    "libsodium)";
#endif

template <typename Function>
bool find(void* library, const char* name, Function** ret) {
  *ret = reinterpret_cast<Function*>(dlsym(library, name));
  return *ret != nullptr;
}

/// The part of OpenSSL 3 that is needed. Types are its own, behind pointers.
struct Crypto {
  void* (*new_key)(int type, void* engine, const unsigned char* bytes, size_t nbytes) = nullptr;
  void (*free_key)(void* key) = nullptr;
  void* (*new_context)() = nullptr;
  void (*free_context)(void* context) = nullptr;
  int (*init)(void* context, void** ret_key_context, const void* digest, void* engine,
              void* key) = nullptr;
  int (*verify)(void* context, const unsigned char* signature, size_t signature_nbytes,
                const unsigned char* message, size_t nbytes) = nullptr;

  bool open(void* library) {
    return find(library, "EVP_PKEY_new_raw_public_key", &new_key) &&
           find(library, "EVP_PKEY_free", &free_key) &&
           find(library, "EVP_MD_CTX_new", &new_context) &&
           find(library, "EVP_MD_CTX_free", &free_context) &&
           find(library, "EVP_DigestVerifyInit", &init) &&
           find(library, "EVP_DigestVerify", &verify);
  }

  bool is_right(const Ed25519Key& key, const void* message, size_t nbytes,
                const uint8_t* signature) const {
    constexpr int kEd25519 = 1087;  // NID_ED25519
    void* const public_key = new_key(kEd25519, nullptr, key.data(), key.size());
    void* const context = new_context();
    const bool right = public_key != nullptr && context != nullptr &&
                       init(context, nullptr, nullptr, nullptr, public_key) == 1 &&
                       verify(context, signature, sizeof(PayloadSignature::signature),
                              static_cast<const unsigned char*>(message), nbytes) == 1;
    free_context(context);
    free_key(public_key);
    return right;
  }
};

/// The part of libsodium that is needed.
struct Sodium {
  int (*init)() = nullptr;
  int (*verify)(const unsigned char* signature, const unsigned char* message,
                unsigned long long nbytes, const unsigned char* key) = nullptr;

  bool open(void* library) {
    return find(library, "sodium_init", &init) &&
           find(library, "crypto_sign_verify_detached", &verify) && init() >= 0;
  }

  bool is_right(const Ed25519Key& key, const void* message, size_t nbytes,
                const uint8_t* signature) const {
    return verify(signature, static_cast<const unsigned char*>(message), nbytes, key.data()) == 0;
  }
};

/// One of the two, open for as long as the process lives.
class Library {
 public:
  Library() {
    has_crypto_ = open_one(kCryptoNames, &crypto_);
    has_sodium_ = !has_crypto_ && open_one(kSodiumNames, &sodium_);
  }

  Status verify(const Ed25519Key& key, const void* message, size_t nbytes, const uint8_t* signature,
                bool* ret) const {
    AOTIP_CHECK(has_crypto_ || has_sodium_,
                "signatures cannot be checked: neither OpenSSL 3 (libcrypto) nor libsodium is "
                "here. Install one (%s). Tried:%s",
                kInstall, tried_.c_str());
    *ret = has_crypto_ ? crypto_.is_right(key, message, nbytes, signature)
                       : sodium_.is_right(key, message, nbytes, signature);
    return Status::kOk;
  }

 private:
  template <typename Functions, size_t kCount>
  bool open_one(const char* const (&names)[kCount], Functions* functions) {
    for (const char* name : names) {
      void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library != nullptr && functions->open(library)) {
        return true;
      }
      const char* const reason = library == nullptr ? dlerror() : "it lacks functions";
      tried_ += std::string(" ") + name + " (" + (reason != nullptr ? reason : "?") + ")";
      if (library != nullptr) {
        dlclose(library);
      }
    }
    return false;
  }

  bool has_crypto_ = false;
  bool has_sodium_ = false;
  Crypto crypto_;
  Sodium sodium_;
  std::string tried_;
};

}  // namespace

Status verify_ed25519(const Ed25519Key& key, const void* message, size_t nbytes,
                      const uint8_t* signature, bool* ret_right) noexcept {
  *ret_right = false;
  try {
    // Never destroyed: programs may be loaded by destructors that run at exit.
    static const Library* const library = new Library();
    return library->verify(key, message, nbytes, signature, ret_right);
  } catch (const std::exception& error) {
    return fail("signatures cannot be checked: %s", error.what());
  }
}

}  // namespace aoti_plugins
