#pragma once

/// Marks what the libraries of other devices use of the core library. It is no public interface:
/// all our libraries are built together and belong to one version.
#define AOTIP_CORE __attribute__((visibility("default")))
