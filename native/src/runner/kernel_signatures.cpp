#include "runner/kernel_signatures.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace aoti_plugins::runner {
namespace {

struct Signature {
  std::string_view op;
  const char* arguments;
};

#define AOTIP_SIGNATURE(op, arguments) {op, arguments},
constexpr Signature kSignatures[] = {
#include "runner/kernel_signatures.inc"
};
#undef AOTIP_SIGNATURE

}  // namespace

const char* kernel_signature(const std::string& op) {
  const auto* end = std::end(kSignatures);
  const auto* found = std::lower_bound(
      std::begin(kSignatures), end, op,
      [](const Signature& signature, const std::string& wanted) { return signature.op < wanted; });
  return found != end && found->op == op ? found->arguments : nullptr;
}

}  // namespace aoti_plugins::runner
