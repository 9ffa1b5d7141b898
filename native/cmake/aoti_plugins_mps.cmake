# The MPS delegate: Metal is looked for when a program is loaded, so it builds everywhere.

set(aotip_mps_runtime
    src/mps/driver/objc.cpp
    src/mps/driver/gpu.cpp
    src/mps/memory/buffer_index.cpp
    src/mps/memory/buffer_pool.cpp
    src/mps/driver/commands.cpp
    src/mps/driver/stream.cpp
    src/mps/driver/pipeline_archive.cpp
    src/mps/driver/shader_library.cpp
    src/mps/driver/encode.cpp
    src/mps/driver/kernel.cpp
    src/mps/memory/device_copy.cpp
    src/mps/session/mps_device.cpp
    src/mps/memory/storage.cpp
    src/mps/session/options.cpp
    src/mps/session/target.cpp
    src/mps/session/kernel_buffers.cpp
    src/mps/session/session.cpp
    src/mps/exports/names.cpp
    src/mps/exports/kernel_shims.cpp
    src/mps/exports/memory_shims.cpp)

# Operators over kernels of our own.
set(aotip_mps_operators
    src/mps/ops/metal_types.cpp
    src/mps/ops/lines.cpp
    src/mps/ops/gemm_tiles.cpp
    src/mps/ops/matmul.cpp
    src/mps/ops/conv.cpp
    src/mps/ops/shims.cpp
    src/mps/ops/gguf_linear.cpp
    src/mps/ops/linear_operands.cpp
    src/mps/ops/small_linear.cpp
    src/mps/ops/attention.cpp
    src/mps/ops/attention_shims.cpp
    src/mps/ops/recurrent.cpp
    src/mps/ops/scan.cpp
    src/mps/ops/sort.cpp
    src/mps/ops/scatter.cpp
    src/mps/ops/scatter_lines.cpp
    src/mps/ops/index_put.cpp
    src/mps/ops/fft.cpp
    src/mps/ops/randint.cpp)

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
