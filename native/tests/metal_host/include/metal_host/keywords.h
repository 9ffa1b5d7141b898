// Words of the Metal dialect that are nothing, or something else, to C++. Nothing may be included
// after this. Attributes and threadgroup variables are taken care of by ../../translate.py.
#pragma once

#define __METAL__ 1
#ifndef __METAL_VERSION__
#define __METAL_VERSION__ 310  // macOS 14: the oldest with bfloat
#endif
#define __METAL_MACOS__ 1
#define __HAVE_BFLOAT__ 1
#define __HAVE_SIMDGROUP_MATRIX__ 1

#define device
#define constant const
#define threadgroup
#define thread
#define kernel static

// Not in Metal.
#define double double_is_not_a_type_of_metal
