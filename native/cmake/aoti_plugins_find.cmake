# Finds what comes from Python packages, through the interpreter that builds us.

find_package(Python3 REQUIRED COMPONENTS Interpreter)

# Sets <out> to the folder of an installed Python package, or to nothing.
function(aotip_python_package package out)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
            "import importlib.util as u; s = u.find_spec('${package}'); print(next(iter(s.submodule_search_locations or ())) if s else '')"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    set(folder "")
  endif()
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

# Sets <out> to the include folder of the C++ packages that cmeel installs, or to nothing.
function(aotip_cmeel_include header out)
  execute_process(
    COMMAND "${Python3_EXECUTABLE}" -c
            "import os, sys; h = '${header}'; d = [os.path.join(p, 'cmeel.prefix', 'include') for p in sys.path]; print(next((x for x in d if os.path.exists(os.path.join(x, h))), ''))"
    OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  if(failed)
    set(folder "")
  endif()
  set(${out} "${folder}" PARENT_SCOPE)
endfunction()

if(NOT executorch_DIR)
  aotip_python_package(executorch aotip_executorch)
  if(aotip_executorch)
    set(executorch_DIR "${aotip_executorch}/lib/cmake/executorch")
  endif()
endif()
find_package(executorch 1.5 REQUIRED COMPONENTS runtime)

if(NOT AOTIP_EIGEN_INCLUDE_DIR)
  aotip_cmeel_include("eigen3/Eigen/Core" aotip_cmeel)
  if(aotip_cmeel)
    set(AOTIP_EIGEN_INCLUDE_DIR "${aotip_cmeel}/eigen3")
  else()
    find_path(AOTIP_EIGEN_INCLUDE_DIR Eigen/Core PATH_SUFFIXES eigen3)
  endif()
endif()
if(NOT AOTIP_EIGEN_INCLUDE_DIR)
  message(FATAL_ERROR "Eigen's headers are not found: pip install cmeel-eigen, or set AOTIP_EIGEN_INCLUDE_DIR")
endif()
