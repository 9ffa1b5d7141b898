#!/usr/bin/env bash
# Links with zig, whose driver does not know --push-state and --pop-state. It takes a library that is named for needed
# anyway, which is what they are for, so between them only the libraries are left.
command=()
inside=
while [ $# -gt 0 ]; do
  case "$1 ${2:-}" in
    "-Xlinker --push-state") inside=1 ;;
    "-Xlinker --pop-state") inside= ;;
    "-Xlinker --no-as-needed") [ -n "$inside" ] || command+=("$1" "$2") ;;
    "-Xlinker "*) [ -n "$inside" ] && command+=("$2") || command+=("$1" "$2") ;;
    *)
      command+=("$1")
      shift
      continue
      ;;
  esac
  shift 2
done
exec "${command[@]}"
