# Writes a C++ file with the text of a Metal source, without comments and indents; lines stay where they are:
# cmake -DSOURCE=<name>.metal -DOUTPUT=<file>.cpp -P embed_metal.cmake
get_filename_component(name "${SOURCE}" NAME_WE)
file(READ "${SOURCE}" text)
string(REGEX REPLACE "[ \t]*//[^\n]*" "" text "${text}")
string(REGEX REPLACE "\n[ \t]+" "\n" text "${text}")
string(FIND "${text}" ")metal\"" end)
if(NOT end EQUAL -1)
  message(FATAL_ERROR "${SOURCE} has the text that ends it as a string of C++")
endif()
file(WRITE "${OUTPUT}" "// Written by cmake/embed_metal.cmake from ${name}.metal.\n#include \"mps/driver/kernel.h\"\n"
     "namespace aoti_plugins::mps {\nextern const MetalSource metal_${name};\n"
     "const MetalSource metal_${name} = {\"${name}\", R\"metal(${text})metal\"};\n"
     "}  // namespace aoti_plugins::mps\n")
