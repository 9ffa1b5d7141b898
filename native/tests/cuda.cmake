# Tests of the CUDA delegate without a GPU: stand-ins for the driver, cuBLASLt, cuDNN and cuFFT take the place of NVIDIA's.

set(aotip_fake_cuda_dir "${CMAKE_CURRENT_BINARY_DIR}/fake_cuda")
add_library(fake_cuda SHARED fake_cuda/fake_cuda.cpp fake_cuda/fake_kernels.cpp
            fake_cuda/emulated_device.cpp "${PROJECT_SOURCE_DIR}/src/slim/element.cpp")
# The kernels' "unroll" is NVIDIA's.
set_source_files_properties(fake_cuda/fake_kernels.cpp PROPERTIES COMPILE_OPTIONS -Wno-unknown-pragmas)
add_library(fake_cublaslt SHARED fake_cuda/fake_cublaslt.cpp)
add_library(fake_cudnn SHARED fake_cuda/fake_cudnn.cpp "${PROJECT_SOURCE_DIR}/src/slim/element.cpp")
add_library(fake_cufft SHARED fake_cuda/fake_cufft.cpp)
add_library(fake_nccl SHARED fake_cuda/fake_nccl.cpp)
target_link_libraries(fake_cuda PRIVATE ${CMAKE_DL_LIBS})
target_link_libraries(fake_nccl PRIVATE fake_cuda rt)
target_link_libraries(fake_cublaslt PRIVATE fake_cuda)
target_link_libraries(fake_cudnn PRIVATE fake_cuda)
target_link_libraries(fake_cufft PRIVATE fake_cuda)
target_include_directories(fake_cuda PRIVATE metal_host/include)  # its fibers
foreach(library fake_cuda fake_cublaslt fake_cudnn fake_cufft fake_nccl)
  set_target_properties(${library} PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${aotip_fake_cuda_dir}")
  target_compile_features(${library} PRIVATE cxx_std_17)
  target_include_directories(${library} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include" fake_cuda)
  target_include_directories(${library} SYSTEM PRIVATE "${AOTIP_CUDA_INCLUDE_DIR}")
  target_link_libraries(${library} PRIVATE aotip_options)
endforeach()

function(aotip_cuda_test name)
  aotip_test(${name} ${ARGN})
  add_dependencies(${name} fake_cuda fake_cublaslt fake_cudnn fake_cufft fake_nccl)
  target_include_directories(${name} SYSTEM PRIVATE "${AOTIP_CUDA_INCLUDE_DIR}")
  target_include_directories(${name} PRIVATE fake_cuda)
  target_compile_definitions(${name} PRIVATE AOTIP_FAKE_CUDA_DIR="${aotip_fake_cuda_dir}")
  set_tests_properties(
    ${name}
    PROPERTIES
      ENVIRONMENT
      "${aotip_test_environment};AOTI_PLUGINS_CUDA_DRIVER=$<TARGET_FILE:fake_cuda>;AOTI_PLUGINS_CUBLASLT=$<TARGET_FILE:fake_cublaslt>;AOTI_PLUGINS_CUDNN=$<TARGET_FILE:fake_cudnn>;AOTI_PLUGINS_CUFFT=$<TARGET_FILE:fake_cufft>;AOTI_PLUGINS_NCCL=$<TARGET_FILE:fake_nccl>"
  )
endfunction()

foreach(name cuda_kernel_container_test cuda_target_test cuda_device_test cuda_upload_test cuda_graphs_test
             cuda_matmul_test cuda_matmul_refusals_test cuda_scaled_matmul_test cuda_conv_test cuda_index_test
             cuda_scatter_test cuda_fft_test cuda_recurrent_test cuda_random_test cuda_runtime_exports_test cuda_fused_linear_test cuda_row_linear_test cuda_gate_test cuda_product_plans_test
             cuda_expert_linear_test cuda_packed_linear_test cuda_token_attention_test cuda_drawn_token_test cuda_early_launch_test cuda_ranks_test)
  aotip_cuda_test(${name} LIBRARIES aotip_cuda aotip_core)
endforeach()

aotip_cuda_test(conformance_cuda_test ONE_SOURCE SOURCES ${aotip_conformance} LIBRARIES aotip_cuda aotip_core)
target_compile_definitions(conformance_cuda_test PRIVATE AOTIP_CONFORMANCE_CUDA)

# What tools/gpu_contract.sh runs on a real GPU.
add_custom_target(
  cuda_contract
  DEPENDS cuda_device_test cuda_upload_test cuda_graphs_test cuda_matmul_test cuda_matmul_refusals_test
          cuda_scaled_matmul_test cuda_conv_test cuda_index_test cuda_scatter_test cuda_fft_test cuda_recurrent_test cuda_random_test
          cuda_runtime_exports_test cuda_fused_linear_test cuda_row_linear_test cuda_packed_linear_test
          cuda_expert_linear_test cuda_token_attention_test cuda_drawn_token_test conformance_cuda_test)

# A blob for each way to be: its target is <source>_<way>, and a macro says which one it is.
function(aotip_fake_blobs source)
  foreach(entry ${ARGN})
    string(REPLACE "=" ";" parts "${entry}")
    list(GET parts 0 way)
    list(GET parts 1 define)
    set(target ${source}_${way})
    add_library(${target} MODULE fake_cuda/${source}.cpp)
    set_target_properties(${target} PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY "${aotip_fake_cuda_dir}" NO_SONAME TRUE)
    target_compile_features(${target} PRIVATE cxx_std_17)
    target_compile_definitions(${target} PRIVATE ${define})
    target_include_directories(${target} SYSTEM PRIVATE "${AOTIP_CUDA_INCLUDE_DIR}")
  endforeach()
endfunction()

aotip_fake_blobs(fake_cuda_model ok=FAKE_OK bad_kernel=FAKE_BAD_KERNEL no_kernel=FAKE_NO_KERNEL leaks_module=FAKE_LEAKS_MODULE)
foreach(model ok bad_kernel no_kernel leaks_module)
  set(target fake_cuda_model_${model})
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/include")
  # As blobs are compiled; the preludes in this order.
  target_compile_options(
    ${target} PRIVATE "SHELL:-include aoti_plugins/blob_prelude.h" "SHELL:-include aoti_plugins/cuda_blob_prelude.h"
                      $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_link_options(${target} PRIVATE LINKER:--no-as-needed)
  target_link_libraries(${target} PRIVATE $<TARGET_FILE:backend_aoti> $<TARGET_FILE:backend_aoti_cuda>)
  add_dependencies(${target} backend_aoti_cuda)
endforeach()

foreach(name cuda_delegate_test cuda_delegate_graphs_test cuda_begun_calls_test cuda_rank_delegate_test
             cuda_watched_calls_test)
  aotip_cuda_test(${name} SOURCES "${PROJECT_SOURCE_DIR}/src/delegate/crc32.cpp"
                  "${PROJECT_SOURCE_DIR}/src/runner/call_trace.cpp"
                  LIBRARIES aoti_plugins::backend_aoti_cuda)
  foreach(model ok bad_kernel no_kernel leaks_module)
    add_dependencies(${name} fake_cuda_model_${model})
  endforeach()
endforeach()
