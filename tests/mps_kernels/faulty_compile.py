"""Compile Metal for the host with one fault planted: ``python faulty_compile.py SOURCE OUTPUT``.

The environment variables ``METAL_FAULT_OLD`` and ``METAL_FAULT_NEW`` say what is replaced by what,
once, in sources that have it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mps_support import METAL_HOST


def main() -> int:
    """Replace, then compile as usual."""
    source, output = Path(sys.argv[1]), Path(sys.argv[2])
    text = source.read_text()
    changed = text.replace(os.environ["METAL_FAULT_OLD"], os.environ["METAL_FAULT_NEW"], 1)
    faulty = source.with_name(f"faulty_{source.name}")
    faulty.write_text(changed)
    compiler = METAL_HOST / "compile.py"
    try:
        return subprocess.run([sys.executable, str(compiler), str(faulty), str(output)]).returncode
    finally:
        faulty.unlink()


if __name__ == "__main__":
    sys.exit(main())
