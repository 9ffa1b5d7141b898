#!/usr/bin/env bash
# Unpacks packages of Debian for another machine into a folder, with all that they depend on:
#
#     tools/debian_root.sh arm64 FOLDER libstdc++6 python3.11
#
# The folder is a root for programs under qemu (qemu-aarch64-static -L FOLDER PROGRAM), and has headers and libraries for
# cross compilers (native/cmake/linux_zig.cmake). It needs no rights and changes nothing of this system: apt works on a
# state of its own, with this system's sources of packages, which have to be Debian's or those that APT_SOURCES names.
set -euo pipefail

if [ $# -lt 3 ]; then
  sed -n '2,4s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
  echo "apt-get and dpkg-deb are not here: run this on Debian, or in a container of it" >&2
  exit 1
fi
machine=$1
mkdir -p "$2"
root=$(cd "$2" && pwd)
shift 2

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
mkdir -p "$state/lists/partial" "$state/archives/partial"
: >"$state/status"
options=(
  -qq -o "APT::Architecture=$machine" -o "APT::Architectures=$machine" -o APT::Install-Recommends=false
  -o "Dir::State=$state" -o "Dir::State::status=$state/status" -o "Dir::Cache=$state" -o APT::Sandbox::User=
)
if [ -n "${APT_SOURCES:-}" ]; then
  options+=(-o "Dir::Etc::sourcelist=$APT_SOURCES" -o Dir::Etc::sourceparts=/dev/null)
fi
apt-get "${options[@]}" update
apt-get "${options[@]}" --yes --download-only install "$@"
for package in "$state"/archives/*.deb; do
  dpkg-deb -x "$package" "$root"
done
