"""A program runs where nothing can be written: no file, no temporary folder."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

# Makes every mounted file system read-only for one process and its children, then runs a command.
READ_ONLY = """
set -e
mount --make-rprivate /
awk '$3 !~ /^(proc|sysfs|cgroup2?|mqueue|debugfs|tracefs|securityfs|devpts)$/ {print $2}' \
    /proc/self/mounts | while read -r where; do
  mount -o remount,bind,ro "$where" 2>/dev/null || mount -o remount,ro "$where"
done
for folder in /tmp /var/tmp /dev/shm "$PWD" "$HOME"; do
  if [ -d "$folder" ] && touch "$folder/.writable" 2>/dev/null; then
    echo "$folder is still writable"; exit 1
  fi
done
exec "$@"
"""


@pytest.fixture
def read_only() -> tuple[str, ...]:
    """Command prefix for a process that sees only read-only file systems."""
    unshare = shutil.which("unshare")
    works = unshare and not subprocess.run([unshare, "-rm", "true"], check=False).returncode
    if not works:
        pytest.skip("'unshare -rm true' fails: no user namespaces here")
    return (str(unshare), "-rm", "bash", "-c", READ_ONLY, "read_only")


def test_runs_without_a_writable_place(
    read_only: tuple[str, ...],
    run_python: Callable[..., str],
    lowered_programs: Callable[[str], Path],
) -> None:
    printed = run_python(
        """
        import sys, numpy
        from aoti_plugins.runtime import Program
        outputs = Program(sys.argv[1])(numpy.ones((4, 64), numpy.float32))
        assert outputs[0].shape == (4, 64)
        print("ran")
        """,
        lowered_programs("mlp"),
        prefix=read_only,
        PYTHONDONTWRITEBYTECODE="1",
    )
    assert "ran" in printed
