# For hook packages: kernels of their own, as find_package(aoti_plugins REQUIRED COMPONENTS kernels) gives it.
#
#     aoti_plugins_add_kernels(NAME DEVICE cpu|cuda SOURCES file... DESTINATION folder [VERSION 1.2.0])
#
# compiles C shims (extern "C", AOTIP_EXPORT, declared as PyTorch's in aoti_plugins/shim.h) and installs them in two forms:
#
#     NAME.o                 one object that is linked into a blob: LinkedObjects
#     libNAME.so.MAJOR       a library that programs look for where they run: SharedLibrary
#
# The library states its version (of the project, unless VERSION is given), so that a program that was made with a newer
# one is refused by name. MAJOR is the first number of the version. A library that exports no C shim is an error. What is
# for cuda may be of CUDA too, where the project has enabled that language; the object then holds cudart, and names no
# library of CUDA's.
function(aoti_plugins_add_kernels name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "DEVICE;DESTINATION;VERSION" "SOURCES")
  foreach(needed IN ITEMS DEVICE DESTINATION SOURCES)
    if(NOT arg_${needed})
      message(FATAL_ERROR "aoti_plugins_add_kernels(${name}): ${needed} is missing")
    endif()
  endforeach()
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "aoti_plugins_add_kernels(${name}): unknown arguments ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_VERSION)
    set(arg_VERSION "${PROJECT_VERSION}")
  endif()
  if(NOT arg_VERSION MATCHES "^([0-9]+)(\\.[0-9]+)*$")
    message(FATAL_ERROR "aoti_plugins_add_kernels(${name}): VERSION is numbers and dots, found '${arg_VERSION}'; give "
                        "it here or in project()")
  endif()
  set(suffix ".so.${CMAKE_MATCH_1}")
  aoti_plugins_kernel_runtime(${arg_DEVICE} runtime cudart)

  add_library(${name}_objects OBJECT ${arg_SOURCES})
  target_compile_features(${name}_objects PRIVATE cxx_std_17)
  target_include_directories(${name}_objects SYSTEM PRIVATE "${aoti_plugins_INCLUDE_DIR}")
  target_compile_options(
    ${name}_objects
    PRIVATE "$<$<COMPILE_LANGUAGE:CXX,CUDA>:SHELL:-include aoti_plugins/kernel_prelude.h>"
            "$<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections>" "$<$<CXX_COMPILER_ID:GNU>:$<$<COMPILE_LANGUAGE:CXX>:-fno-gnu-unique>>")
  set_target_properties(
    ${name}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                               CUDA_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)

  set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.o")
  add_custom_command(
    OUTPUT "${object}"
    COMMAND "${CMAKE_CXX_COMPILER}" -r -nostdlib -o "${object}" "$<TARGET_OBJECTS:${name}_objects>" ${cudart}
    DEPENDS ${name}_objects "$<TARGET_OBJECTS:${name}_objects>"
    COMMENT "Joining the kernels of ${name}" COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(${name}_object ALL DEPENDS "${object}")

  # Must match kernel_library_version_symbol in native/src/delegate/kernel_library.cpp.
  string(MAKE_C_IDENTIFIER "lib${name}${suffix}" identifier)
  file(
    CONFIGURE OUTPUT "${name}_version.cpp"
    CONTENT [[
extern "C" __attribute__((visibility("default"))) const char* aotip_version_of_@identifier@() {
  return "@arg_VERSION@";
}
]] @ONLY)
  add_library(${name} SHARED "$<TARGET_OBJECTS:${name}_objects>" "${CMAKE_CURRENT_BINARY_DIR}/${name}_version.cpp")
  set_target_properties(${name} PROPERTIES PREFIX lib SUFFIX "${suffix}" LINKER_LANGUAGE CXX
                                           BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "")
  target_link_libraries(${name} PRIVATE ${runtime} ${cudart})
  target_link_options(${name} PRIVATE LINKER:--no-undefined LINKER:--allow-shlib-undefined)
  add_custom_command(
    TARGET ${name} POST_BUILD
    COMMAND "${CMAKE_COMMAND}" -D "NAME=${name}" -D "NM=${CMAKE_NM}" -D "LIBRARY=$<TARGET_FILE:${name}>" -D
            "OBJECTS=$<TARGET_OBJECTS:${name}_objects>" -P "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/aoti_plugins_check_kernels.cmake"
    COMMENT "Looking for the kernels of ${name}" VERBATIM)

  install(TARGETS ${name} LIBRARY DESTINATION "${arg_DESTINATION}")
  install(FILES "${object}" DESTINATION "${arg_DESTINATION}")
endfunction()

# Sets `runtime` to our libraries, by path, that answer the C shims of a device, and `cudart` to what kernels in CUDA need.
function(aoti_plugins_kernel_runtime device runtime cudart)
  if(device STREQUAL "cpu")
    set(targets backend_aoti)
  elseif(device STREQUAL "cuda")
    set(targets backend_aoti backend_aoti_cuda)
  else()
    message(FATAL_ERROR "aoti_plugins_add_kernels: DEVICE is cpu or cuda, found '${device}'")
  endif()
  set(files "")
  foreach(target IN LISTS targets)
    if(NOT TARGET aoti_plugins::${target})
      message(FATAL_ERROR "this aoti_plugins was built without the delegate for ${device}")
    endif()
    list(APPEND files "$<TARGET_FILE:aoti_plugins::${target}>")
  endforeach()
  set(${runtime} "${files}" PARENT_SCOPE)
  set(${cudart} "" PARENT_SCOPE)
  if(device STREQUAL "cuda" AND CMAKE_CUDA_COMPILER)
    find_package(CUDAToolkit REQUIRED)
    set(${cudart} "$<TARGET_FILE:CUDA::cudart_static>" PARENT_SCOPE)
  endif()
endfunction()
