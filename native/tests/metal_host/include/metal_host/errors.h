// Errors of a dispatch: recorded in its message, after which the dispatch is given up.
#pragma once

namespace metal_host {

/// A place in the kernel's text. Operations that threads meet in take theirs as a default argument.
struct Site {
  const char* operation;
  int line;
  int column;
  bool orders_memory = false;  // of the threads that meet
  bool operator==(const Site& other) const { return line == other.line && column == other.column; }
  bool operator<(const Site& other) const {
    return line != other.line ? line < other.line : column < other.column;
  }
};

struct Place {
  int line;
  int column;
  __attribute__((always_inline)) static constexpr Place here(int line = __builtin_LINE(),
                                                             int column = __builtin_COLUMN()) {
    return {line, column};
  }
};

/// Ends the dispatch with a message. Called on the stack of a thread of the GPU, it does not
/// return.
void fail(const char* format, ...);

/// What the compiler's check of array indices calls.
struct SourceLocation {
  const char* file;
  uint32_t line;
  uint32_t column;
};
struct OutOfBounds {
  SourceLocation location;
  const void* array_type;
  const void* index_type;
};
struct DividedByZero {
  SourceLocation location;
  const void* type;
};

}  // namespace metal_host

extern "C" {
__attribute__((visibility("hidden"), used)) inline void __ubsan_handle_out_of_bounds(
    metal_host::OutOfBounds* data, unsigned long index) {
  metal_host::fail("line %u: index %ld is outside of the array", data->location.line, long(index));
}
__attribute__((visibility("hidden"), used)) inline void __ubsan_handle_divrem_overflow(
    metal_host::DividedByZero* data, unsigned long, unsigned long) {
  metal_host::fail("line %u: division of an integer by zero", data->location.line);
}
}
