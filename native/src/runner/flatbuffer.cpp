// The format: https://flatbuffers.dev/internals. Written little-endian, as every machine that we
// run on is.

#include "runner/flatbuffer.h"

#include <cstdarg>
#include <cstdio>

namespace aoti_plugins::runner {
namespace {

constexpr size_t kIdentifierAt = 4;
constexpr size_t kIdentifierNbytes = 4;
/// A vtable starts with its own size and the table's.
constexpr size_t kVtableHead = 4;

}  // namespace

void damaged(const char* format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  throw Damaged(text);
}

size_t FlatBytes::follow(size_t at, const char* what) const {
  const auto offset = number<uint32_t>(at, what);
  if (offset == 0 || offset >= nbytes_ - at) {
    damaged("%s at byte %zu: an offset of %u, expected one that stays before byte %zu", what, at,
            offset, nbytes_);
  }
  return at + offset;
}

FlatTables::FlatTables(FlatBytes& bytes, size_t at, const char* what)
    : bytes_(&bytes), at_(at + sizeof(uint32_t)), what_(what) {
  size_ = FlatVector<uint32_t>(bytes, at, what).size();
}

FlatTable FlatTables::operator[](size_t i) const {
  return {*bytes_, bytes_->follow(at_ + i * sizeof(uint32_t), what_), what_};
}

FlatTable::FlatTable(FlatBytes& bytes, size_t at, const char* what)
    : bytes_(&bytes), at_(at), what_(what) {
  bytes.spend(1);
  const int64_t vtable = static_cast<int64_t>(at) - bytes.number<int32_t>(at, what);
  if (vtable < 0) {
    damaged("%s at byte %zu: its vtable is before the first byte", what, at);
  }
  vtable_ = static_cast<size_t>(vtable);
  vtable_nbytes_ = bytes.number<uint16_t>(vtable_, what);
  nbytes_ = bytes.number<uint16_t>(vtable_ + sizeof(uint16_t), what);
  (void)bytes.at(vtable_, sizeof(uint16_t), vtable_nbytes_ / sizeof(uint16_t), what);
  if (vtable_nbytes_ < kVtableHead || vtable_nbytes_ % sizeof(uint16_t) != 0 ||
      nbytes_ < sizeof(int32_t) || nbytes_ > bytes.nbytes() - at) {
    damaged("%s at byte %zu: a vtable of %u bytes for a table of %u", what, at, vtable_nbytes_,
            nbytes_);
  }
}

FlatTable FlatTable::root(FlatBytes& bytes, const char* identifier) {
  const uint8_t* found = bytes.at(kIdentifierAt, 1, kIdentifierNbytes, "identifier");
  if (std::memcmp(found, identifier, kIdentifierNbytes) != 0) {
    damaged("the identifier is not %s", identifier);
  }
  return {bytes, bytes.follow(0, "root"), "root"};
}

size_t FlatTable::find(Field field, size_t nbytes) const {
  const size_t entry = kVtableHead + sizeof(uint16_t) * field.id;
  if (bytes_ == nullptr || entry + sizeof(uint16_t) > vtable_nbytes_) {
    return 0;
  }
  const auto offset = bytes_->number<uint16_t>(vtable_ + entry, field.name);
  if (offset == 0) {
    return 0;
  }
  if (offset < sizeof(int32_t) || offset + nbytes > nbytes_) {
    damaged("%s of %s at byte %zu: %zu bytes at %u, the table has %u", field.name, what_, at_,
            nbytes, offset, nbytes_);
  }
  return at_ + offset;
}

void FlatTable::require(Field field) const {
  if (!has(field)) {
    damaged("%s at byte %zu has no %s", what_, at_, field.name);
  }
}

FlatTable FlatTable::find_table(Field field) const {
  const size_t at = find(field, sizeof(uint32_t));
  return at == 0 ? FlatTable() : FlatTable(*bytes_, bytes_->follow(at, field.name), field.name);
}

FlatTable FlatTable::table(Field field) const {
  require(field);
  return find_table(field);
}

FlatTables FlatTable::find_tables(Field field) const {
  const size_t at = find(field, sizeof(uint32_t));
  return at == 0 ? FlatTables() : FlatTables(*bytes_, bytes_->follow(at, field.name), field.name);
}

FlatTables FlatTable::tables(Field field) const {
  require(field);
  return find_tables(field);
}

std::string_view FlatTable::find_text(Field field) const {
  const size_t at = find(field, sizeof(uint32_t));
  if (at == 0) {
    return {};
  }
  const size_t start = bytes_->follow(at, field.name);
  const FlatVector<uint8_t> text(*bytes_, start, field.name);
  if (*bytes_->at(start + sizeof(uint32_t) + text.size(), 1, 1, field.name) != 0) {
    damaged("%s of %s at byte %zu does not end with NUL", field.name, what_, at_);
  }
  const auto* characters = reinterpret_cast<const char*>(text.data());
  if (std::memchr(characters, 0, text.size()) != nullptr) {
    damaged("%s of %s at byte %zu has NUL in it", field.name, what_, at_);
  }
  return {characters, text.size()};
}

std::string_view FlatTable::text(Field field) const {
  require(field);
  return find_text(field);
}

}  // namespace aoti_plugins::runner
