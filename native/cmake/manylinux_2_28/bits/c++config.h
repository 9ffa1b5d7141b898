// The C++ library's configuration, without what glibc got after 2.28.
#include_next <bits/c++config.h>

#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT    // 2.30
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK   // 2.30
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK  // 2.30
#undef _GLIBCXX_HAVE_ARC4RANDOM               // 2.36
