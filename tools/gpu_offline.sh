#!/usr/bin/env bash
# Test and measure on a machine with a GPU and without network.
#
#   tools/gpu_offline.sh WHEELS OUTPUT [tests | programs | process | decode | matmul | kernels | models | attention | contract
#                                       | peer ...]
#
# Installs as tools/test_offline.sh does, then runs what is named (all of it by default): the tests marked gpu, the benchmarks
# of benchmarks/, the contract tests in $CONTRACT (tools/gpu_contract.sh), ExecuTorch's operator suite. Results and logs go to
# OUTPUT; the tables are printed last. What fails does not stop the rest. PROGRAMS and SECONDS_FOR_PROGRAMS limit which programs
# that benchmark builds, and how long (COMPILED=1 adds torch.compile, WITHOUT_MEASURING=1
# lowers with the cost model alone); FOLDER keeps them for the next run, which goes on where
# this one was cut off.
set -euo pipefail
wheels=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
export AOTI_PLUGINS_SITE=${AOTI_PLUGINS_SITE:-$(mktemp -d)} PYTHONUNBUFFERED=1
python=${PYTHON:-python3}
folder=${FOLDER:-$AOTI_PLUGINS_SITE/programs}
tools/test_offline.sh "$wheels" -q --version
export PYTHONPATH="$AOTI_PLUGINS_SITE:$PWD/benchmarks" PYTHONSAFEPATH=1

one() {
  case $1 in
    tests) "$python" -m pytest -q -p no:cacheprovider -p no:benchmark -n 8 -m gpu -o filterwarnings=ignore tests/gpu ;;
    programs)
      "$python" benchmarks/cuda_programs.py ${PROGRAMS:-} ${COMPILED:+--compiled} ${WITHOUT_MEASURING:+--without-measuring} --seconds "${SECONDS_FOR_PROGRAMS:-3600}" \
        --folder "$folder" --output "$output/cuda_programs.json"
      ;;
    process) "$python" benchmarks/cuda_process.py --target "${TARGET:-h100}" --folder "$folder" --output "$output/cuda_process.json" ;;
    decode) "$python" benchmarks/cuda_decode.py ${DECODERS:-} --target "${TARGET:-h100}" ${COMPILED:+--compiled} --output "$output/cuda_decode.json" ;;
    matmul) "$python" benchmarks/cuda_matmul.py --folder "$folder/products" --output "$output/cuda_matmul.json" ;;
    kernels) "$python" benchmarks/cuda_kernels.py --folder "$folder/kernels" --output "$output/cuda_kernels.json" ;;
    models) "$python" tests/zoo/run.py cuda ${MODELS:-} -n "${PROCESSES:-6}" --output "$output/models_cuda.json" ;;
    contract)
      "$python" -c "import pathlib, cuda_process; cuda_process.build(pathlib.Path('$folder/process'))"
      for model in mlp small_cnn small_decoder; do
        "$python" benchmarks/cuda_programs.py --task $model estimated h100 "" "$folder/$model.pte"
      done
      CALLED="$folder/mlp.pte $folder/small_cnn.pte $folder/small_decoder.pte" PROCESS="$folder/process/cuda_process" \
        LD_LIBRARY_PATH="$AOTI_PLUGINS_SITE/executorch/lib:$CONTRACT${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        tools/gpu_contract.sh "${CONTRACT:?a folder with the contract tests}" "$output/contract"
      ;;
    attention) "$python" benchmarks/cuda_attention.py --output "$output/cuda_attention.json" ;;
    peer) "$python" tests/peer/run.py aoti_cuda -n 16 --output "$output/peer_aoti_cuda.json" ;;
    *) echo "unknown: $1" && return 2 ;;
  esac
}

names=("$@")
[[ ${#names[@]} -gt 0 ]] || names=(tests programs process decode matmul kernels models attention contract peer)
for name in "${names[@]}"; do
  echo "$name: $(date +%T)"
  one "$name" >"$output/$name.log" 2>&1 || echo "$name failed: $output/$name.log"
done
for name in "${names[@]}"; do
  echo "== $name"
  tail -n 20 "$output/$name.log"
done
