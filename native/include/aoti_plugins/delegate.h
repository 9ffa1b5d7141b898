#pragma once

/// What the delegate library offers beside the backend that it registers with ExecuTorch.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Why this thread's most recent `init` or `execute` of a delegate failed; an empty string when
/// none did. Borrowed until the next failure on this thread.
__attribute__((visibility("default"))) const char* aotip_delegate_last_error(void);

/// Forgets the reason, so that a later look tells whether something failed since.
__attribute__((visibility("default"))) void aotip_delegate_clear_error(void);

/// Keeps why what this thread computes fails, before the code that it calls returns an error. Null
/// is an empty reason. Blobs tell it so: no exception may cross into the runtime, or out of it.
__attribute__((visibility("default"))) void aotip_record_failure(const char* reason);

/// How many buffers are used by more than one of the delegates that were loaded with this id as
/// option `shared_state`. Returns 0, or 1 when memory runs out.
__attribute__((visibility("default"))) int32_t aotip_delegate_shared_count(int32_t state_id,
                                                                           size_t* ret_count);

/// What `aotip_delegate_stand_in` returns: who runs the programs that ask for a backend.
enum {
  AOTIP_STAND_IN_NONE = 0,   ///< nobody
  AOTIP_STAND_IN_OURS = 1,   ///< a library of ours
  AOTIP_STAND_IN_OTHER = 2,  ///< who has registered it before
};

/// Makes a library of ours run the programs of another backend, unless somebody has registered that
/// one: the library for CUDA those that ask for "CudaBackend", ExecuTorch's own. Call it before
/// such a method is loaded; the runner (runner.h) does. Who registers that backend later is refused
/// by ExecuTorch. Several threads may call it, but not while one uses ExecuTorch's registry
/// otherwise.
__attribute__((visibility("default"))) int32_t aotip_delegate_stand_in(const char* backend_id);

/// Says in which file the kernel library of a soname is, for programs that are loaded later and
/// need it; one that is in the process already comes first. Without it the system looks for the
/// soname. Both strings are copied, and a later path takes the place of an earlier one. Returns 0,
/// or 1 for null or when memory runs out.
__attribute__((visibility("default"))) int32_t aotip_add_kernel_library(const char* soname,
                                                                        const char* path);

#ifdef __linux__
/// Which of several processes this one is, whatever the environment says, for programs for several
/// ranks; before the first of them is loaded. docs/parallel.md says what the environment says.
///
/// @param rank from 0, of `world_size`.
/// @param local_rank its number on this machine: which GPU is its own.
/// @param meeting a name that all ranks of one start have in common and no others on this machine;
/// copied. Ranks of one user on one machine meet.
/// @param timeout_seconds how long a rank waits for another one, more than 0.
/// @return 0, or 1 where the numbers do not fit together; `aotip_delegate_last_error` says why.
__attribute__((visibility("default"))) int32_t aotip_set_rank(int32_t rank, int32_t world_size,
                                                              int32_t local_rank,
                                                              const char* meeting,
                                                              double timeout_seconds);

/// Makes `nbytes` at `data` on all ranks what they are on rank 0; each rank calls it. Waits for the
/// ranks to meet where they have not, and then for rank 0 as long as that takes. Returns 0, or 1
/// where a rank ends or does not come in time; `aotip_delegate_last_error` says which.
__attribute__((visibility("default"))) int32_t aotip_broadcast_from_rank_0(void* data,
                                                                           size_t nbytes);

/// From where code of programs is loaded: "memory", or "files in " and a folder; null where there
/// is no place for it. For people; borrowed until this thread's next call.
__attribute__((visibility("default"))) const char* aotip_blob_place(void);

/// On whose kernels products and convolutions with constants run on the CPU: "XNNPACK in " and its
/// library, which this opens, or "aoti_plugins", with the reason. For people; never freed.
__attribute__((visibility("default"))) const char* aotip_product_kernels(void);
#endif

/// Demands that programs are signed: delegates that are initialized from here on run code and read
/// weights only of programs whose payload carries a signature of Ed25519 by one of `n_keys` public
/// keys of 32 bytes, which follow each other at `keys`. Further calls are further demands, and so
/// is the environment variable AOTI_PLUGINS_REQUIRE_SIGNATURES, which names PEM files: a program
/// has to meet all of them. There is no way back. No keys mean no programs. Returns 0, or 1 for
/// null or when memory runs out, and then no program is run any more. docs/security.md says what a
/// signature covers.
__attribute__((visibility("default"))) int32_t aotip_require_signatures(const uint8_t* keys,
                                                                        size_t n_keys);

/// 1 where signatures are demanded, 0 where not.
__attribute__((visibility("default"))) int32_t aotip_signatures_required(void);

/// What `aotip_verify_signature` returns.
enum {
  AOTIP_SIGNATURE_RIGHT = 0,
  AOTIP_SIGNATURE_WRONG = 1,
  AOTIP_SIGNATURE_UNKNOWN = 2,  ///< it cannot be checked; `aotip_delegate_last_error` says why
};

/// Checks a signature of Ed25519 (64 bytes) over a message, by a public key (32 bytes), as
/// delegates do: with OpenSSL 3 or libsodium, whichever is found.
__attribute__((visibility("default"))) int32_t aotip_verify_signature(const uint8_t* key,
                                                                      const void* message,
                                                                      size_t nbytes,
                                                                      const uint8_t* signature);

#ifdef __cplusplus
}
#endif
