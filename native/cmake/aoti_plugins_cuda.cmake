# Finds CUDA's headers, and nvcc for our own kernels: a system toolkit, or PyPI's packages (nvidia-cuda-runtime and
# nvidia-cuda-crt for the headers, with nvidia-cuda-nvcc, nvidia-nvvm and nvidia-cuda-cccl for the compiler), which
# share one folder. Neither a driver nor cudart is linked.

# Sets <out> to the folder of PyPI's CUDA packages, or to nothing.
function(aotip_pypi_cuda out)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
            "import glob, importlib.util as u; s = u.find_spec('nvidia'); print(next((p for r in (s.submodule_search_locations if s else ()) for p in sorted(glob.glob(r + '/cu1[2-9]'), reverse=True)), ''))"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(folder "")
  endif()
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

function(aotip_find_cuda)
  aotip_pypi_cuda(pypi)
  find_program(aotip_nvcc_on_path nvcc)
  mark_as_advanced(aotip_nvcc_on_path)
  set(roots "")
  if(aotip_nvcc_on_path)
    get_filename_component(real "${aotip_nvcc_on_path}" REALPATH)
    get_filename_component(bin "${real}" DIRECTORY)
    get_filename_component(root "${bin}" DIRECTORY)
    list(APPEND roots "${root}")
  endif()
  foreach(root IN ITEMS "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" ${roots} /usr/local/cuda "${pypi}")
    if(root AND EXISTS "${root}/include/cuda.h" AND EXISTS "${root}/include/cuda_runtime_api.h"
       AND EXISTS "${root}/include/crt/host_defines.h")
      set(AOTIP_CUDA_INCLUDE_DIR "${root}/include" CACHE PATH "Folder of cuda.h")
      break()
    endif()
  endforeach()
  if(AOTIP_CUDA_INCLUDE_DIR)
    get_filename_component(root "${AOTIP_CUDA_INCLUDE_DIR}" DIRECTORY)
    find_program(AOTIP_NVCC nvcc HINTS "${root}/bin" NO_DEFAULT_PATH DOC "Compiler of our CUDA kernels")
    find_program(AOTIP_NVCC nvcc)
  endif()
endfunction()

# Adds our kernels, as one image for all GPUs, to a target: one cubin for each of AOTIP_CUDA_GPUS, and PTX.
function(aotip_device_kernels target)
  if(NOT AOTIP_CUDA_GPUS MATCHES "^[1-9][0-9]+(;[1-9][0-9]+)*$")
    message(FATAL_ERROR "AOTIP_CUDA_GPUS is ${AOTIP_CUDA_GPUS}, expected compute capabilities as 80;90")
  endif()
  set(cubins ${AOTIP_CUDA_GPUS})
  if(AOTIP_NVCC)
    execute_process(COMMAND "${AOTIP_NVCC}" --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    string(REGEX MATCHALL "[0-9]+" known "${known}")
    foreach(arch IN LISTS AOTIP_CUDA_GPUS)
      if(NOT arch IN_LIST known)
        list(REMOVE_ITEM cubins ${arch})
      endif()
    endforeach()
  endif()
  list(JOIN cubins "," defined)
  set_property(SOURCE src/cuda/driver/device_kernels.cpp APPEND PROPERTY COMPILE_DEFINITIONS "AOTIP_CUBINS=${defined}")
  if(NOT AOTIP_NVCC)
    message(STATUS "nvcc is not found: strided copies, conversions and fills on the GPU are left out")
    return()
  endif()
  set(image "${CMAKE_CURRENT_BINARY_DIR}/aotip_device_kernels.fatbin")
  set(sources ${CMAKE_CURRENT_SOURCE_DIR}/src/cuda/kernels/kernels.cu)
  file(GLOB parts CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/cuda/kernels/*")
  set(codes "")
  # All GPUs of 9.0 are of its feature set 90a, which has products of four warps. CUDA has it from 12.0 on.
  list(TRANSFORM cubins REPLACE "^90$" "90a")
  foreach(arch IN LISTS cubins)
    list(APPEND codes "-gencode=arch=compute_${arch},code=sm_${arch}")
  endforeach()
  set(inputs ${sources} ${parts})
  foreach(input IN ITEMS src/slim/dtype.h src/slim/dtypes.inc src/ops/combine.h)
    list(APPEND inputs "${CMAKE_CURRENT_SOURCE_DIR}/${input}")
  endforeach()
  execute_process(COMMAND "${AOTIP_NVCC}" --version OUTPUT_VARIABLE AOTIP_KERNELS_COMPILER ERROR_QUIET)
  # CUDA 13 compresses in one form, and this says how hard. In older ones it would be another form, which old drivers
  # do not read.
  set(compress -Xfatbin -compress-all)
  if(AOTIP_KERNELS_COMPILER MATCHES "release ([0-9]+)\\." AND CMAKE_MATCH_1 GREATER_EQUAL 13)
    list(APPEND compress --compress-mode=size)
  endif()
  string(SHA256 AOTIP_KERNELS_COMPILER "${AOTIP_KERNELS_COMPILER}")
  set(AOTIP_KERNELS_IMAGE "${image}")
  set(AOTIP_KERNELS_COMMAND
      "${AOTIP_NVCC}" --fatbin -std=c++17 -O3 -Wno-deprecated-gpu-targets ${compress}
      -I "${CMAKE_CURRENT_SOURCE_DIR}/src" ${codes} -gencode=arch=compute_80,code=compute_80 ${sources})
  set(AOTIP_KERNELS_INPUTS ${inputs})
  foreach(list IN ITEMS AOTIP_KERNELS_COMMAND AOTIP_KERNELS_INPUTS)
    list(TRANSFORM ${list} REPLACE "^(.+)$" "\"\\1\"")
    list(JOIN ${list} "\n    " ${list})
  endforeach()
  set(script "${CMAKE_CURRENT_BINARY_DIR}/compile_kernels.cmake")
  configure_file("${CMAKE_CURRENT_SOURCE_DIR}/cmake/compile_kernels.cmake.in" "${script}" @ONLY)
  add_custom_command(
    OUTPUT "${image}" COMMAND "${CMAKE_COMMAND}" -P "${script}" DEPENDS ${inputs} "${script}"
    COMMENT "Compiling the kernels for NVIDIA GPUs" VERBATIM)
  add_custom_target(${target}_kernels DEPENDS "${image}")
  add_dependencies(${target} ${target}_kernels)
  set_property(SOURCE src/cuda/driver/device_kernels.cpp APPEND PROPERTY OBJECT_DEPENDS "${image}")
  set_property(SOURCE src/cuda/driver/device_kernels.cpp APPEND
               PROPERTY COMPILE_DEFINITIONS "AOTIP_DEVICE_KERNELS=\"${image}\"")
endfunction()
