"""Our own plugins come through the entry points of our own distribution, like anybody's."""

from __future__ import annotations

import json
import os
import subprocess
import sys

CODE = """
import json, sys
from aoti_plugins import get_manager
manager = get_manager()
own = [info.name for info in manager.plugins() if info.distribution == "aoti-plugins"]
name = manager.blob_name("so", "cpu", "forward", "0a" * 32)
print(json.dumps([own, name, "torch" in sys.modules, "executorch" in sys.modules]))
"""


def test_own_plugins_are_found_without_importing_torch() -> None:
    environment = {k: v for k, v in os.environ.items() if k != "AOTI_PLUGINS_BLOCK"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        ["blob_names", "cpu", "cuda", "mps"], f"{'0a' * 32}_so_blob", False, False,
    ]  # fmt: skip


def test_own_plugins_can_be_blocked() -> None:
    environment = os.environ | {"AOTI_PLUGINS_BLOCK": "cpu,blob_names"}
    code = (
        "from aoti_plugins import get_manager\n"
        "manager = get_manager()\n"
        "print(*sorted(info.name for info in manager.plugins() if info.blocked))\n"
        "print(manager.conflicts())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "blob_names cpu\n[]\n"
