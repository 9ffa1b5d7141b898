"""What a result must say about where it was measured."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

_PACKAGES = ("aoti-plugins", "executorch", "torch", "triton", "numpy")


def describe() -> dict[str, Any]:
    """Date, hardware and versions."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "hardware": {
            "cpu": _cpu_name(),
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            **_gpus(),
        },
        "system": f"{platform.system()} {platform.release().split('-')[0]}",
        "versions": {
            "python": platform.python_version(),
            **{name: _version(name) for name in _PACKAGES if _version(name)},
        },
    }


def save(path: Path, results: dict[str, Any]) -> None:
    """Write results with their environment as JSON, all of it or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f"{path.name}.unfinished")
    unfinished.write_text(json.dumps({"environment": describe(), **results}, indent=2) + "\n")
    unfinished.replace(path)


def _version(package: str) -> str:
    """Empty for a package that is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _gpus() -> dict[str, Any]:
    """NVIDIA GPUs and their driver, where there are any."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return {}
    found = [line.split(", ") for line in done.stdout.splitlines() if ", " in line]
    if done.returncode or not found:
        return {}
    return {"gpus": [name for name, _ in found], "driver": found[0][1]}
