#!/usr/bin/env bash
# The contract tests of the CUDA runtime on a real GPU, by themselves and under compute-sanitizer.
#
#   cmake --preset release && cmake --build --preset release --target cuda_contract     (in native/)
#   tools/gpu_contract.sh native/build/release/tests OUTPUT [memcheck | racecheck | synccheck ...]
#
# The same programs run in CI over stand-ins for the driver and NVIDIA's libraries; here they find the real ones. Cases that need
# the stand-ins, or a second GPU where there is one GPU, are left out. Logs go to OUTPUT; a line per run is printed last.
#
# With CALLED, the paths of lowered programs, and PROCESS, the built benchmarks/cuda_process, it also calls each of these a few times,
# without and with CUDA graphs: what no contract test does on a real GPU. tools/gpu_offline.sh makes both.
set -euo pipefail
[[ -z ${CALLED:-} ]] || : "${PROCESS:?the program of benchmarks/cuda_process, to call $CALLED}"
programs=$(realpath "$1")
mkdir -p "$2"
output=$(realpath "$2")
shift 2
tools=("$@")
[[ ${#tools[@]} -gt 0 ]] || tools=(memcheck racecheck synccheck)

# Where PyTorch's packages have NVIDIA's libraries; elsewhere the runtime looks for them itself.
find_library() {
  "${PYTHON:-python3}" - "$1" <<'PYTHON'
import pathlib, sys
found = [p for folder in sys.path for p in pathlib.Path(folder or ".").glob(f"nvidia/*/lib/{sys.argv[1]}.so.*")]
print(min(found, key=lambda p: len(p.name), default=""))
PYTHON
}
for entry in AOTI_PLUGINS_CUBLASLT=libcublasLt AOTI_PLUGINS_CUDNN=libcudnn AOTI_PLUGINS_CUFFT=libcufft; do
  library=$(find_library "${entry#*=}")
  [[ -z $library ]] || export "${entry%%=*}=$library"
done
unset AOTI_PLUGINS_CUDA_DRIVER

left_out='!@stand_in'
[[ $(nvidia-smi --list-gpus | wc -l) -gt 1 ]] || left_out+=':!@two_gpus'

status=0
lines=()
# A run counts as clean if the tool says so itself, not merely by its exit status.
clean() {
  case $1 in
    memcheck | synccheck) grep -q "ERROR SUMMARY: 0 errors" "$2" ;;
    racecheck) grep -q "RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)" "$2" ;;
  esac
}
# Racecheck does not follow a warp that meets (__syncwarp) before one of its lanes arrives at a barrier for all 32: it takes what the
# 31 others have read of a stage of streamed weights for a race with the copy that fills the stage again.
racecheck_options=(--kernel-name-exclude kernel_substring=aotip_streamed_)
run_all() {
  local name=$1 tool log begin code command options
  shift
  for tool in alone "${tools[@]}"; do
    log="$output/$name.$tool.log"
    command=("$@")
    options=()
    [[ $tool != racecheck ]] || options=("${racecheck_options[@]}")
    [[ $tool == alone ]] || command=(compute-sanitizer --tool "$tool" "${options[@]}" --error-exitcode 9 "$@")
    begin=$SECONDS
    code=0
    timeout "${SECONDS_FOR_EACH:-300}" "${command[@]}" >"$log" 2>&1 || code=$?
    [[ $tool == alone || $code != 0 ]] || clean "$tool" "$log" || code="1 (the tool does not say that it found nothing)"
    [[ $code == 0 ]] || status=1
    lines+=("$name $tool: exit $code, $((SECONDS - begin)) s")
  done
}

for program in "$programs"/{conformance_cuda,cuda_{device,upload,graphs,matmul,matmul_refusals,scaled_matmul,fused_linear,packed_linear,conv,index,scatter,fft,random,row_linear,token_attention,drawn_token}}_test; do
  run_all "$(basename "$program")" "$program" "--run_test=$left_out"
done
for program in ${CALLED:-}; do
  name=$(basename "$program" .pte)
  run_all "$name" "$PROCESS" calls "$program" 2
  run_all "$name.graphs" "$PROCESS" calls "$program" 2 graphs
done
printf '%s\n' "${lines[@]}"
exit $status
