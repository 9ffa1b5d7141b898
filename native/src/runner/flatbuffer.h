#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace aoti_plugins::runner {

/// Thrown for bytes of a file that cannot be right. `what()` says where they are, what was found
/// and what was expected. It stays inside the checks.
class Damaged : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void damaged(const char* format, ...) __attribute__((format(printf, 1, 2), cold));

/// One field of a table: its number and its name, as the schema has them. The value of a union is
/// the field after its type.
struct Field {
  uint16_t id;
  const char* name;
};

/// The bytes of a flatbuffer. Tables and vectors borrow it; every read is checked against its end.
class FlatBytes {
 public:
  FlatBytes(const uint8_t* data, size_t nbytes) : data_(data), nbytes_(nbytes) {}
  FlatBytes(const FlatBytes&) = delete;
  FlatBytes& operator=(const FlatBytes&) = delete;

  size_t nbytes() const { return nbytes_; }

  /// `count` items of `item_nbytes` at `at`, which must be aligned for one.
  const uint8_t* at(size_t at, size_t item_nbytes, size_t count, const char* what) const {
    if (at > nbytes_ || count > (nbytes_ - at) / item_nbytes || at % item_nbytes != 0) {
      damaged("%s at byte %zu: %zu times %zu bytes, expected aligned ones before byte %zu", what,
              at, count, item_nbytes, nbytes_);
    }
    return data_ + at;
  }

  template <typename T>
  T number(size_t at_byte, const char* what) const {
    T value;
    std::memcpy(&value, at(at_byte, sizeof(T), 1, what), sizeof(T));
    return value;
  }

  /// Where the offset at `at` leads.
  size_t follow(size_t at, const char* what) const;

  /// Counts what is read, which ends files that refer to the same bytes over and over.
  void spend(size_t count) {
    spent_ += count;
    if (spent_ > 2 * nbytes_) {
      damaged("the same bytes are referred to too often");
    }
  }

 private:
  const uint8_t* data_;
  size_t nbytes_;
  size_t spent_ = 0;
};

class FlatTable;

/// A vector of numbers.
template <typename T>
class FlatVector {
 public:
  FlatVector() = default;
  FlatVector(FlatBytes& bytes, size_t at, const char* what)
      : size_(bytes.number<uint32_t>(at, what)),
        data_(bytes.at(at + sizeof(uint32_t), sizeof(T), size_, what)) {}

  size_t size() const { return size_; }
  const uint8_t* data() const { return data_; }
  T operator[](size_t i) const {
    T value;
    std::memcpy(&value, data_ + i * sizeof(T), sizeof(T));
    return value;
  }

 private:
  size_t size_ = 0;
  const uint8_t* data_ = nullptr;
};

/// A vector of tables.
class FlatTables {
 public:
  FlatTables() = default;
  FlatTables(FlatBytes& bytes, size_t at, const char* what);

  size_t size() const { return size_; }
  FlatTable operator[](size_t i) const;

 private:
  FlatBytes* bytes_ = nullptr;
  size_t at_ = 0;
  size_t size_ = 0;
  const char* what_ = "";
};

/// A table, or none: what `find_table()` gives for a field that is not there.
class FlatTable {
 public:
  FlatTable() = default;
  FlatTable(FlatBytes& bytes, size_t at, const char* what);

  /// The table that everything else is in.
  static FlatTable root(FlatBytes& bytes, const char* identifier);

  explicit operator bool() const { return bytes_ != nullptr; }
  bool has(Field field) const { return find(field) != 0; }

  template <typename T>
  T number(Field field, T fallback = T{}) const {
    const size_t at = find(field, sizeof(T));
    return at == 0 ? fallback : bytes_->number<T>(at, field.name);
  }

  FlatTable find_table(Field field) const;
  FlatTable table(Field field) const;

  /// The empty ones are for fields that are not there, too.
  template <typename T>
  FlatVector<T> find_numbers(Field field) const {
    const size_t at = find(field, sizeof(uint32_t));
    if (at == 0) {
      return {};
    }
    FlatVector<T> found(*bytes_, bytes_->follow(at, field.name), field.name);
    bytes_->spend(sizeof(T) > 1 ? found.size() : 1);
    return found;
  }
  template <typename T>
  FlatVector<T> numbers(Field field) const {
    require(field);
    return find_numbers<T>(field);
  }
  FlatTables find_tables(Field field) const;
  FlatTables tables(Field field) const;

  /// Text without its final NUL.
  std::string_view find_text(Field field) const;
  std::string_view text(Field field) const;

 private:
  /// Where the field is, 0 if it is not there.
  size_t find(Field field, size_t nbytes = 1) const;
  void require(Field field) const;

  FlatBytes* bytes_ = nullptr;
  size_t at_ = 0;
  size_t vtable_ = 0;
  uint16_t vtable_nbytes_ = 0;
  uint16_t nbytes_ = 0;
  const char* what_ = "";
};

}  // namespace aoti_plugins::runner
