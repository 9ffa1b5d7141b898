#include "mutate.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace {

constexpr size_t kMaxChanges = 4;

/// Limits of counts, indices and offsets.
constexpr uint32_t kWords[] = {0,      1,      2,       0x7f,       0x80,       0xff,
                               0x7fff, 0xffff, 0x10000, 0x7fffffff, 0x80000000, 0xffffffff};

}  // namespace

void Mutator::mutate(uint8_t* data, size_t nbytes) {
  if (nbytes < 2 * sizeof(uint32_t)) {
    return;
  }
  for (size_t changes = 1 + below(kMaxChanges); changes > 0; --changes) {
    mutate_once(data, nbytes);
  }
}

void Mutator::mutate_once(uint8_t* data, size_t nbytes) {
  const size_t words = nbytes / sizeof(uint32_t);
  uint8_t* word = data + below(words) * sizeof(uint32_t);
  uint8_t* other = data + below(words) * sizeof(uint32_t);
  uint32_t value = 0;
  std::memcpy(&value, word, sizeof(value));
  switch (below(7)) {
    case 0:
      data[below(nbytes)] ^= static_cast<uint8_t>(1u << below(8));
      return;
    case 1:
      data[below(nbytes)] = static_cast<uint8_t>(random_());
      return;
    case 2:
      std::swap_ranges(word, word + sizeof(value), other);
      return;
    case 3:
      value += static_cast<uint32_t>(below(33)) - 16;
      break;
    case 4:
      value = kWords[below(std::size(kWords))];
      break;
    case 5:
      std::memmove(word, other, sizeof(value));
      return;
    default:
      std::memset(word, 0, std::min<size_t>(below(16), static_cast<size_t>(data + nbytes - word)));
      return;
  }
  std::memcpy(word, &value, sizeof(value));
}
