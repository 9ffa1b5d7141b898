#include "cuda/upstream/upstream_program.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>

#include "cuda/upstream/upstream_weights.h"

namespace aoti_plugins::cuda {
namespace {

using ::executorch::runtime::ArrayRef;
using ::executorch::runtime::BackendInitContext;
using ::executorch::runtime::CompileSpec;

/// Upstream's compile spec, in backends/aoti/aoti_backend.py.
constexpr const char* kMethodNameKey = "method_name";

/// The method's name as it was when the model was lowered; empty where no compile spec gives it.
std::string method_name_of(ArrayRef<CompileSpec> specs) {
  for (const CompileSpec& spec : specs) {
    if (spec.key != nullptr && std::strcmp(spec.key, kMethodNameKey) == 0) {
      const std::string text(static_cast<const char*>(spec.value.buffer), spec.value.nbytes);
      return text.substr(0, text.find('\0'));
    }
  }
  return "";
}

struct Keys {
  std::string blob;
  std::string weights;
};

Keys keys_by_method(ArrayRef<CompileSpec> specs) {
  const std::string method = method_name_of(specs);
  const std::string prefix = method.empty() ? "" : method + "_";
  return {prefix + "so_blob", prefix + "weights_blob"};
}

/// For messages: what bytes begin with, those that are no text as dots.
std::string beginning(std::string_view text) {
  std::string shown(text.substr(0, 32));
  std::replace_if(shown.begin(), shown.end(), [](char c) { return c < ' ' || c > '~'; }, '.');
  return shown;
}

Status read_keys(std::string_view text, Keys* ret) {
  const size_t end = text.find('\n');
  const bool is_text = std::all_of(text.begin(), text.end(),
                                   [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); });
  std::string_view second = end != text.npos ? text.substr(end + 1) : "";
  second = !second.empty() && second.back() == '\n' ? second.substr(0, second.size() - 1) : second;
  AOTIP_CHECK(
      is_text && end != 0 && !second.empty() && second.find('\n') == second.npos,
      "the program stores %zu bytes for the delegate that begin with '%s', expected the keys "
      "of blob and weights on a line each, or a list of weights (%s3). The program is "
      "damaged, or made by an executorch that is newer than 1.5.",
      text.size(), beginning(text).c_str(), kWeightsMagic);
  *ret = {std::string(text.substr(0, end)), std::string(second)};
  return Status::kOk;
}

bool is_list_of_weights(std::string_view text) {
  const std::string_view magic = kWeightsMagic;
  return text.substr(0, magic.size()) == magic;
}

Status read_generation(const BackendInitContext& context, std::string_view text,
                       ArrayRef<CompileSpec> specs, std::string* ret_blob, Payload* ret) {
  if (is_list_of_weights(text)) {
    ret->shares_buffers = true;
    return read_upstream_weights(text.data(), text.size(), context.get_named_data_map(), ret_blob,
                                 ret);
  }
  Keys keys = keys_by_method(specs);
  if (!text.empty()) {
    AOTIP_RETURN_IF_FAILED(read_keys(text, &keys));
  }
  *ret_blob = std::move(keys.blob);
  ret->packed_weights = std::move(keys.weights);
  return Status::kOk;
}

}  // namespace

Status read_upstream_program(const BackendInitContext& context, const void* data, size_t nbytes,
                             ArrayRef<CompileSpec> specs, Payload* ret) noexcept {
  try {
    const std::string_view text(static_cast<const char*>(data), data != nullptr ? nbytes : 0);
    Payload payload;
    TargetArtifact target;
    target.name = "the GPU that it was lowered on";
    target.plain_names = true;
    AOTIP_RETURN_IF_FAILED(read_generation(context, text, specs, &target.key, &payload));
    const char* method = context.get_method_name();
    payload.device = "cuda";
    payload.method = method != nullptr ? method : method_name_of(specs);
    payload.targets.push_back(std::move(target));
    payload.describes_values = false;
    *ret = std::move(payload);
    return Status::kOk;
  } catch (const std::exception& error) {
    return fail("reading the program: %s", error.what());
  }
}

}  // namespace aoti_plugins::cuda
