# Toolchain for wheels: zig's clang and linker, for Linux with glibc 2.28 (manylinux_2_28), over GCC's C++ library, which
# the executorch wheel uses too (docs/decisions/0067-wheels.md). tools/build_linux.py sets
#
#   AOTIP_ZIG          zig, of PyPI's ziglang
#   AOTIP_MACHINE      x86_64 or aarch64
#   AOTIP_DEBIAN_ROOT  where tools/debian_root.sh unpacked libstdc++-12-dev for that machine

set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR "${AOTIP_MACHINE}")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES AOTIP_ZIG AOTIP_MACHINE AOTIP_DEBIAN_ROOT)

set(aotip_triple "${AOTIP_MACHINE}-linux-gnu")
set(CMAKE_C_COMPILER "${AOTIP_ZIG}" cc -target ${aotip_triple}.2.28)
set(CMAKE_CXX_COMPILER "${AOTIP_ZIG}" c++ -target ${aotip_triple}.2.28 -nostdinc++ -nostdlib++)

# The C++ library's headers stand before the C library's, with what manylinux_2_28 lacks taken off first. No byte of the
# output depends on where the folders are.
set(aotip_cxx_headers "${AOTIP_DEBIAN_ROOT}/usr/include")
set(CMAKE_CXX_FLAGS_INIT
    "-g0 -fno-unroll-loops -ffunction-sections -fdata-sections -Wno-deprecated-declarations -Wno-unknown-warning-option -I${CMAKE_CURRENT_LIST_DIR}/manylinux_2_28 -I${aotip_cxx_headers}/c++/12 -I${aotip_cxx_headers}/${aotip_triple}/c++/12"
)
set(aotip_libraries "${AOTIP_DEBIAN_ROOT}/usr/lib/${aotip_triple}")
# GCC's support functions come before zig's, of which some only stand in for them: its __builtin_cpu_supports finds none.
set(CMAKE_CXX_STANDARD_LIBRARIES
    "${aotip_libraries}/libstdc++.so.6 ${AOTIP_DEBIAN_ROOT}/usr/lib/gcc/${aotip_triple}/12/libgcc.a ${AOTIP_DEBIAN_ROOT}/lib/${aotip_triple}/libgcc_s.so.1"
)
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s -Wl,--gc-sections")
# These two libraries are newer than the glibc that is linked.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-s -Wl,--allow-shlib-undefined")
set(CMAKE_CXX_LINKER_LAUNCHER "${CMAKE_CURRENT_LIST_DIR}/zig_link.sh")
