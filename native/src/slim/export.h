#pragma once

/// Marks what the libraries of other devices use of the core library. It is no public interface:
/// all our libraries are built together and belong to one version. Where one library holds
/// everything, as on macOS, nothing of it is visible.
#ifdef AOTIP_ONE_LIBRARY
#define AOTIP_CORE
#else
#define AOTIP_CORE __attribute__((visibility("default")))
#endif

/// Marks what the runner's library uses of the core library, where there are two everywhere.
#define AOTIP_FOR_RUNNER __attribute__((visibility("default")))
