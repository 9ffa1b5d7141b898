# Tests of the MPS delegate without a Mac: metal_host/ stands in for Metal and the Objective-C runtime, and compiles
# kernels for the host. Its compiler is zig's.

function(aotip_mps_test name)
  aotip_test(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE metal_stand_in)
  target_compile_definitions(${name} PRIVATE AOTIP_FAKE_MPS_DIR="${CMAKE_CURRENT_BINARY_DIR}/fake_mps")
  set_tests_properties(
    ${name}
    PROPERTIES
      ENVIRONMENT
      "${aotip_test_environment};AOTI_PLUGINS_METAL=$<TARGET_FILE:metal_stand_in>;AOTI_PLUGINS_METAL_COMPILER=${Python3_EXECUTABLE} ${CMAKE_CURRENT_SOURCE_DIR}/metal_host/compile.py;AOTI_PLUGINS_METAL_CACHE=${CMAKE_CURRENT_BINARY_DIR}/metal_cache"
  )
endfunction()

foreach(name mps_memory_test mps_device_test mps_kernel_test mps_target_test)
  aotip_mps_test(${name} LIBRARIES aotip_mps aotip_core)
endforeach()

aotip_mps_test(conformance_mps_test ONE_SOURCE SOURCES ${aotip_conformance} LIBRARIES aotip_mps aotip_core)
target_compile_definitions(conformance_mps_test PRIVATE AOTIP_CONFORMANCE_MPS)

foreach(entry ok=FAKE_OK bad_shader=FAKE_BAD_SHADER no_kernel=FAKE_NO_KERNEL large_group=FAKE_LARGE_GROUP
              run_fails=FAKE_RUN_FAILS)
  string(REPLACE "=" ";" parts "${entry}")
  list(GET parts 0 way)
  list(GET parts 1 define)
  set(target fake_mps_model_${way})
  add_library(${target} MODULE fake_mps/fake_mps_model.cpp)
  set_target_properties(${target} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/fake_mps"
                                             NO_SONAME TRUE)
  target_compile_features(${target} PRIVATE cxx_std_17)
  target_compile_definitions(${target} PRIVATE ${define})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include")
  # As blobs are compiled.
  target_compile_options(${target} PRIVATE "SHELL:-include aoti_plugins/blob_prelude.h"
                                           $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_link_options(${target} PRIVATE LINKER:--no-as-needed)
  target_link_libraries(${target} PRIVATE $<TARGET_FILE:backend_aoti> $<TARGET_FILE:backend_aoti_mps>)
  add_dependencies(${target} backend_aoti_mps)
  list(APPEND aotip_fake_mps_models ${target})
endforeach()

aotip_mps_test(mps_delegate_test SOURCES "${PROJECT_SOURCE_DIR}/src/delegate/crc32.cpp"
               LIBRARIES aoti_plugins::backend_aoti_mps)
add_dependencies(mps_delegate_test ${aotip_fake_mps_models})
