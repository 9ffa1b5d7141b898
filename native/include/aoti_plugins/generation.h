#pragma once

/// A plain C API to generate text with a program that `aoti-plugins export` made: tokens in, tokens
/// out. Tokens are numbers of the checkpoint's tokenizer, `tokenizer.json`, which is the caller's
/// business. Sessions share a program's weights, and each has its cache.
///
///     aotip_language_model_create(program, &model);
///     aotip_session_create(model, &session);
///     aotip_session_begin(session, prompt, n_prompt, &sampling);
///     int32_t end = AOTIP_END_NONE;
///     while (end == AOTIP_END_NONE && aotip_session_next(session, &token, &end) == 0) { ... }
///
/// Functions return codes and leave a reason as those of `runner.h` do. Sessions may be used from a
/// thread each; calls of one session wait for each other.

#include <aoti_plugins/runner.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct aotip_language_model aotip_language_model;
typedef struct aotip_session aotip_session;

/// What a program says of its model.
typedef struct {
  int64_t vocabulary;         ///< tokens are 0 to this minus 1
  int64_t max_length;         ///< the most tokens of a prompt and its answer
  int64_t begin_token;        ///< what a text begins with, if the tokenizer adds it; -1 for none
  const int64_t* end_tokens;  ///< any of them ends an answer; borrowed from the model
  size_t n_end_tokens;
  int64_t adapter_numel;  ///< numbers of an adapter (`aotip_session_adapt`); 0: takes none
  int32_t is_recurrent;   ///< 1: a state stands for the whole text, and cannot be cut
} aotip_language_model_info;

/// How tokens are chosen; `aotip_sampling_init` sets what takes the likeliest one. The steps are in
/// the order of the fields. Must match aoti_plugins/generation/sampling.py, which with the same
/// seed chooses the same tokens.
typedef struct {
  double repetition_penalty;  ///< over 0: logits of tokens that were there are divided by it
  double temperature;         ///< 0 or more: logits are divided by it; 0 takes the likeliest token
  int64_t top_k;              ///< of so many of the likeliest tokens; 0: of all
  double top_p;               ///< of the likeliest tokens with this probability; over 0, at most 1
  double min_p;               ///< of tokens with this share of the likeliest one's probability
  uint64_t seed;              ///< of the random numbers
  int32_t has_seed;           ///< 0: another seed for each answer
} aotip_sampling;

/// Why an answer is at its end.
enum {
  AOTIP_END_NONE = 0,
  AOTIP_END_TOKEN = 1,   ///< this token ends answers
  AOTIP_END_LENGTH = 2,  ///< the text has all the tokens that the program takes
};

/// A language model over a program, of which it keeps what it needs. Fails where the program is
/// none, or takes audio. Freed with `aotip_language_model_destroy`.
AOTIP_RUNNER_EXPORT int32_t aotip_language_model_create(aotip_program* program,
                                                        aotip_language_model** ret_new);

/// Null is allowed. Sessions that are still there keep what they need.
AOTIP_RUNNER_EXPORT void aotip_language_model_destroy(aotip_language_model* model);

AOTIP_RUNNER_EXPORT int32_t aotip_language_model_get_info(aotip_language_model* model,
                                                          aotip_language_model_info* ret_info);

/// A session with a cache of its own. Freed with `aotip_session_destroy`.
AOTIP_RUNNER_EXPORT int32_t aotip_session_create(aotip_language_model* model,
                                                 aotip_session** ret_new);

/// Null is allowed. No other call of the session may be under way.
AOTIP_RUNNER_EXPORT void aotip_session_destroy(aotip_session* session);

/// Sets what takes the likeliest token. Null is allowed.
AOTIP_RUNNER_EXPORT void aotip_sampling_init(aotip_sampling* sampling);

/// Begins an answer to a prompt of `n_tokens` tokens, 1 or more and less than `max_length`. Reads
/// nothing yet; what the prompt begins with and the cache has need not be read again. `sampling`
/// may be null, which takes the likeliest tokens.
AOTIP_RUNNER_EXPORT int32_t aotip_session_begin(aotip_session* session, const int64_t* tokens,
                                                size_t n_tokens, const aotip_sampling* sampling);

/// How many tokens of the prompt were in the cache when the answer began.
AOTIP_RUNNER_EXPORT int32_t aotip_session_cached(aotip_session* session, size_t* ret_count);

/// Chooses the next token and adds it to the text. `ret_end` says whether the answer is at its end;
/// after `AOTIP_END_TOKEN` a caller may go on all the same.
AOTIP_RUNNER_EXPORT int32_t aotip_session_next(aotip_session* session, int64_t* ret_token,
                                               int32_t* ret_end);

/// The logits after the last token of the text, `[vocabulary]`, float32, for who chooses tokens
/// himself. Borrowed until the next call of the session.
AOTIP_RUNNER_EXPORT int32_t aotip_session_logits(aotip_session* session, const float** ret_logits);

/// Adds a token that the caller chose to the text.
AOTIP_RUNNER_EXPORT int32_t aotip_session_push(aotip_session* session, int64_t token);

/// Makes the session's model the one that an adapter (LoRA) makes of it; zeros are the model
/// itself, as which sessions begin. `adapter` is [adapter_numel], float32, as
/// `aoti_plugins.generation.read_adapter` makes it of a folder. What was read is forgotten; a text
/// goes on with the new model.
AOTIP_RUNNER_EXPORT int32_t aotip_session_adapt(aotip_session* session, const float* adapter,
                                                size_t numel);

#ifdef __cplusplus
}  // extern "C"
#endif
