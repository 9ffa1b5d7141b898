#include_next <bits/functexcept.h>

// GLIBCXX_3.4.29: an array of more elements than a pointer can count. Its predecessor is the same
// to who catches it.
#define __throw_bad_array_new_length __throw_bad_alloc
