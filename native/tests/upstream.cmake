# Tests of programs of ExecuTorch's own CUDA backend, on stand-ins for its blobs and over the stand-in driver.

aotip_fake_blobs(fake_upstream_model ok=FAKE_OK unknown=FAKE_UNKNOWN old=FAKE_OLD)

aotip_cuda_test(cuda_upstream_test LIBRARIES aoti_plugins::backend_aoti_cuda)
add_dependencies(cuda_upstream_test fake_upstream_model_ok fake_upstream_model_unknown fake_upstream_model_old)

if(aotip_torch)
  set(aotip_upstream_program "${CMAKE_CURRENT_BINARY_DIR}/fake_upstream_program.pte")
  add_custom_command(
    OUTPUT "${aotip_upstream_program}"
    COMMAND "${Python3_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/make_upstream_program.py"
            $<TARGET_FILE:fake_upstream_model_ok> "${aotip_upstream_program}"
    DEPENDS make_upstream_program.py fake_upstream_model_ok
    COMMENT "Making the program of cuda_upstream_runner_test" VERBATIM)
  add_custom_target(aotip_upstream_program DEPENDS "${aotip_upstream_program}")
  # Who has registered a backend is remembered by the process, so each case of that is a test of its own.
  foreach(name cuda_upstream_runner_test cuda_upstream_other_test)
    aotip_cuda_test(${name} LIBRARIES aoti_plugins::runner aoti_plugins::backend_aoti_cuda)
    add_dependencies(${name} aotip_upstream_program)
    target_compile_definitions(${name} PRIVATE AOTIP_UPSTREAM_PROGRAM="${aotip_upstream_program}")
  endforeach()
  aotip_cuda_test(cuda_module_test LIBRARIES aoti_plugins::backend_aoti_cuda)
  add_dependencies(cuda_module_test aotip_upstream_program)
  target_compile_definitions(cuda_module_test PRIVATE AOTIP_UPSTREAM_FOLDER="${CMAKE_CURRENT_BINARY_DIR}")
  set_property(TEST cuda_module_test APPEND PROPERTY ENVIRONMENT FAKE_CUDA_GUARDED=1)
  aotip_test(upstream_missing_test LIBRARIES aoti_plugins::runner)
  add_dependencies(upstream_missing_test aotip_upstream_program)
  target_compile_definitions(upstream_missing_test PRIVATE AOTIP_UPSTREAM_PROGRAM="${aotip_upstream_program}")
endif()
