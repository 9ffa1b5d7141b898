#!/usr/bin/env bash
# Links with zig, whose driver does not know --push-state and --pop-state, and leaves out libraries that nothing refers
# to: those between the two get flags of their own.
command=()
inside=
while [ $# -gt 0 ]; do
  case "$1 ${2:-}" in
    "-Xlinker --push-state") inside=1 ;;
    "-Xlinker --pop-state") inside= ;;
    "-Xlinker --no-as-needed") [ -n "$inside" ] || command+=(-Wl,--no-as-needed) ;;
    "-Xlinker "*)
      if [ -n "$inside" ]; then
        command+=(-Wl,--no-as-needed "$2" -Wl,--as-needed)
      else
        command+=("$1" "$2")
      fi
      ;;
    *)
      command+=("$1")
      shift
      continue
      ;;
  esac
  shift 2
done
exec "${command[@]}"
