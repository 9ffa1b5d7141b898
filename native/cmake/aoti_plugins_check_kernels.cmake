# cmake -D NAME=.. -D NM=.. -D LIBRARY=lib.so -D OBJECTS=a.o;b.o -P aoti_plugins_check_kernels.cmake
#
# Run by aoti_plugins_add_kernels behind the link of a kernel library: one that exports no C shim would be loaded by every
# program that names it, and help none.
cmake_minimum_required(VERSION 3.28)

# Sets `result` to the names of functions in files, as nm prints them with some options.
function(functions_in result options)
  execute_process(
    COMMAND "${NM}" --defined-only ${options} ${ARGN}
    OUTPUT_VARIABLE printed
    COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [TtWi] [^\n ]*aoti_torch_[^\n ]*" lines "${printed}")
  list(TRANSFORM lines REPLACE "^.* " "")
  set(${result} "${lines}" PARENT_SCOPE)
endfunction()

functions_in(exported --dynamic "${LIBRARY}")
# PyTorch's own C shims have the prefix aotip_ for the linker, see aoti_plugins/shim_link_names.h.
list(FILTER exported INCLUDE REGEX "^(aotip_)?aoti_torch_")
if(NOT exported)
  functions_in(hidden "" ${OBJECTS})
  list(JOIN hidden ", " hidden)
  if(hidden)
    set(found "it has ${hidden}, which programs cannot call")
  else()
    set(found "its sources define no function aoti_torch_...")
  endif()
  message(FATAL_ERROR "aoti_plugins_add_kernels(${NAME}): the library exports no kernel; ${found}. Declare the C shim of an "
                      "op as: extern \"C\" AOTIP_EXPORT AOTITorchError aoti_torch_<device>_<op>(...)")
endif()
