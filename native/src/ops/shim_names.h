#pragma once

// The names of a device's C functions: AOTIP_NAME(sort) is aoti_torch_<AOTIP_DEVICE>_sort.

#define AOTIP_JOINED(device, name) aoti_torch_##device##_##name
#define AOTIP_NAMED(device, name) AOTIP_JOINED(device, name)
#define AOTIP_NAME(name) AOTIP_NAMED(AOTIP_DEVICE, name)
