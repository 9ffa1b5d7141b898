// randint.low_out, from which generated code takes the seeds of all its random numbers.

#include <algorithm>

#include "cpu/random.h"
#include "shim/run_shim.h"
#include "slim/element.h"

using namespace aoti_plugins;

namespace {

Status check(const Tensor& out, int64_t low, int64_t high, const int64_t* size, int64_t count) {
  AOTIP_CHECK(out.device().type == kCpu, "out is on %s, expected cpu",
              device_type_name(out.device().type));
  AOTIP_CHECK(is_integer(out.dtype()) || is_real(out.dtype()), "no random integers as %s",
              dtype_name(out.dtype()));
  AOTIP_CHECK(low < high, "the numbers are to be from %lld and below %lld, which leaves none",
              static_cast<long long>(low), static_cast<long long>(high));
  AOTIP_CHECK(count == out.ndim() && (count == 0 || size != nullptr) &&
                  std::equal(size, size + count, out.sizes()),
              "the sizes asked for are not those of out");
  AOTIP_CHECK(out.is_contiguous(), "out is not contiguous");
  return Status::kOk;
}

}  // namespace

AOTITorchError aoti_torch_cpu_randint_low_out(AtenTensorHandle out, int64_t low, int64_t high,
                                              const int64_t* size, int64_t size_len_) {
  return run_shim(__func__, [&] {
    AOTIP_CHECK_TENSOR(out);
    Tensor& tensor = *unwrap(out);
    AOTIP_RETURN_IF_FAILED(check(tensor, low, high, size, size_len_));
    char* at = static_cast<char*>(tensor.data());
    Element element;
    for (int64_t i = 0; i < tensor.numel(); ++i, at += tensor.itemsize()) {
      element.integer = cpu::random_between(low, high);
      store_element(at, tensor.dtype(), element);
    }
    return Status::kOk;
  });
}
