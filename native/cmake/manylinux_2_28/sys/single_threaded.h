// glibc got this header in 2.32. GCC's C++ library includes it where it is found, and asks the
// variable whether it may count references without atomic operations.
#pragma once

static constexpr char __libc_single_threaded = 0;
