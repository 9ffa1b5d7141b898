// The C functions of generation: arguments checked, exceptions kept inside.

#include <aoti_plugins/generation.h>

#include <memory>

#include "generation/language_model.h"
#include "generation/session.h"
#include "runner/c_function.h"

using namespace aoti_plugins::generation;
using aoti_plugins::InsideLibrary;
using aoti_plugins::runner::run_call;

struct aotip_language_model {
  std::shared_ptr<const LanguageModel> model;
};

struct aotip_session {
  explicit aotip_session(std::unique_ptr<CachedModel> cached) : session(std::move(cached)) {}
  Session session;
};

int32_t aotip_language_model_create(aotip_program* program, aotip_language_model** ret_new) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(program, ret_new);
    auto model = std::make_unique<aotip_language_model>();
    const int32_t code = LanguageModel::create(program->file, &model->model);
    if (code == 0) {
      *ret_new = model.release();
    }
    return code;
  });
}

void aotip_language_model_destroy(aotip_language_model* model) {
  const InsideLibrary inside;
  delete model;
}

int32_t aotip_language_model_get_info(aotip_language_model* model,
                                      aotip_language_model_info* ret_info) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(model, ret_info);
    *ret_info = model->model->info();
    return 0;
  });
}

int32_t aotip_session_create(aotip_language_model* model, aotip_session** ret_new) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(model, ret_new);
    std::unique_ptr<CachedModel> cached;
    const int32_t code = CachedModel::create(model->model, &cached);
    if (code == 0) {
      *ret_new = new aotip_session(std::move(cached));
    }
    return code;
  });
}

void aotip_session_destroy(aotip_session* session) {
  const InsideLibrary inside;
  delete session;
}

void aotip_sampling_init(aotip_sampling* sampling) {
  if (sampling != nullptr) {
    *sampling = greedy();
  }
}

int32_t aotip_session_begin(aotip_session* session, const int64_t* tokens, size_t n_tokens,
                            const aotip_sampling* sampling) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(session);
    if (n_tokens > 0) {
      AOTIP_CHECK_NOT_NULL(tokens);
    }
    return session->session.begin(tokens, n_tokens, sampling != nullptr ? *sampling : greedy());
  });
}

int32_t aotip_session_cached(aotip_session* session, size_t* ret_count) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(session, ret_count);
    *ret_count = session->session.cached();
    return 0;
  });
}

int32_t aotip_session_next(aotip_session* session, int64_t* ret_token, int32_t* ret_end) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(session, ret_token, ret_end);
    return session->session.next(ret_token, ret_end);
  });
}

int32_t aotip_session_logits(aotip_session* session, const float** ret_logits) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(session, ret_logits);
    return session->session.logits(ret_logits);
  });
}

int32_t aotip_session_push(aotip_session* session, int64_t token) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(session);
    return session->session.push(token);
  });
}

int32_t aotip_session_adapt(aotip_session* session, const float* adapter, size_t numel) {
  return run_call([&]() -> int32_t {
    AOTIP_CHECK_NOT_NULL(session);
    if (numel > 0) {
      AOTIP_CHECK_NOT_NULL(adapter);
    }
    return session->session.adapt(adapter, numel);
  });
}
