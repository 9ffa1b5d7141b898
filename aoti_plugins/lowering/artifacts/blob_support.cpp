// Linked into every blob.
//
// The generated wrapper keeps its last error in a thread_local std::string. Registering that string's destructor pins the
// blob in memory until the thread ends, so unloading a program would not give its mapping back. The string's storage
// belongs to the blob's thread-local block, which the loader frees; what is lost is the text of an error longer than
// fifteen characters, once per thread.
extern "C" __attribute__((visibility("hidden"))) int __cxa_thread_atexit(
    void (*)(void*),
    void*,
    void*) noexcept {
  return 0;
}
