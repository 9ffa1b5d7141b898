# The MPS delegate: Metal is looked for when a program is loaded, so it builds everywhere.

set(aotip_mps_runtime
    src/mps/objc.cpp
    src/mps/gpu.cpp
    src/mps/buffer_index.cpp
    src/mps/buffer_pool.cpp
    src/mps/commands.cpp
    src/mps/stream.cpp
    src/mps/pipeline_archive.cpp
    src/mps/shader_library.cpp
    src/mps/encode.cpp
    src/mps/kernel.cpp
    src/mps/device_copy.cpp
    src/mps/mps_device.cpp
    src/mps/storage.cpp
    src/mps/options.cpp
    src/mps/target.cpp
    src/mps/session.cpp
    src/mps/names.cpp
    src/mps/kernel_shims.cpp
    src/mps/memory_shims.cpp)

# Operators over kernels of our own.
set(aotip_mps_operators
    src/mps/metal_types.cpp
    src/mps/lines.cpp
    src/mps/matmul.cpp
    src/mps/matmul_shims.cpp
    src/mps/conv.cpp
    src/mps/conv_shims.cpp
    src/mps/attention.cpp
    src/mps/attention_shims.cpp
    src/mps/scan_shims.cpp
    src/mps/sort.cpp
    src/mps/sort_shims.cpp
    src/mps/scatter.cpp
    src/mps/scatter_shims.cpp
    src/mps/index_put.cpp
    src/mps/fft_shims.cpp
    src/mps/random_shims.cpp
    src/mps/view_shims.cpp)

# Adds our kernels as text: each src/mps/kernels/<name>.metal becomes metal_<name>.
function(aotip_embed_metal target)
  file(GLOB shaders CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/src/mps/kernels/*.metal")
  foreach(shader IN LISTS shaders)
    get_filename_component(name "${shader}" NAME_WE)
    set(output "${CMAKE_CURRENT_BINARY_DIR}/metal_${name}.cpp")
    add_custom_command(
      OUTPUT "${output}"
      COMMAND "${CMAKE_COMMAND}" "-DSOURCE=${shader}" "-DOUTPUT=${output}" -P
              "${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_metal.cmake"
      DEPENDS "${shader}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/embed_metal.cmake"
      COMMENT "Embedding ${name}.metal" VERBATIM)
    target_sources(${target} PRIVATE "${output}")
  endforeach()
endfunction()
