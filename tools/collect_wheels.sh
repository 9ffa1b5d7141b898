#!/usr/bin/env bash
# Collect what tools/test_offline.sh and tools/gpu_offline.sh install on a machine without network.
#
#   tools/collect_wheels.sh FOLDER [PYTHON]
#
# PYTHON is the version of Python there, 3.12 by default. PyTorch and what it needs, CMake and ninja are expected to be there.
set -euo pipefail
mkdir -p "$1"
version=${2:-3.12}
packages=(
  "executorch==1.5.*" "torchao==0.18.0" pytorch_tokenizers expecttest flatbuffers kgb packaging parameterized
  gguf py-cpuinfo pyyaml ruamel.yaml ruamel.yaml.clib tabulate
  attrs click filelock markdown-it-py mdurl ml_dtypes pluggy pyelftools pygments rich
  cmeel cmeel-eigen pathspec scikit-build-core
  execnet hypothesis iniconfig pytest pytest-timeout pytest-xdist sortedcontainers
)
platforms=()
for n in 17 24 27 28; do
  platforms+=(--platform "manylinux_2_${n}_x86_64")
done
platforms+=(--platform manylinux2014_x86_64 --platform manylinux1_x86_64)
"${PYTHON:-python3}" -m pip download --quiet --no-deps --only-binary=:all: --python-version "$version" --implementation cp \
  "${platforms[@]}" --dest "$1" "${packages[@]}"
ls "$1"
