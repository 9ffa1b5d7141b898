#!/bin/sh
# Links with zig, whose driver does not know --push-state and --pop-state. It takes a library that is named for needed
# anyway, which is what they are for.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  case $argument in
    -Wl,--push-state,--no-as-needed,*,--pop-state)
      argument=${argument#-Wl,--push-state,--no-as-needed,}
      argument=${argument%,--pop-state}
      ;;
  esac
  set -- "$@" "$argument"
  count=$((count - 1))
done
exec "$@"
