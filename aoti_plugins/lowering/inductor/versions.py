"""Which PyTorch and Triton the lowering was tested with, and the warning beyond that."""

from __future__ import annotations

import functools
import importlib.metadata
import re
import warnings

import torch

Version = tuple[int, int]

# Must match TESTED_TORCH in the Makefile.
OLDEST_TORCH: Version = (2, 11)
NEWEST_TORCH: Version = (2, 15)
NEWEST_TRITON: Version = (3, 9)


class UntestedVersionWarning(UserWarning):
    """PyTorch or Triton is newer than what this version of aoti_plugins was tested with."""


def torch_version() -> Version:
    """Major and minor version of the PyTorch that is there."""
    return _parsed(torch.__version__)


@functools.cache
def warn_if_untested() -> None:
    """Warn where PyTorch or Triton is newer than what was tested; once per process."""
    newer = [
        f"{name} {found} (newest tested: {_text(newest)})"
        for name, found, newest in (
            ("PyTorch", torch.__version__, NEWEST_TORCH),
            ("Triton", _installed("triton"), NEWEST_TRITON),
        )
        if found is not None and _parsed(found) > newest
    ]
    if newer:
        warnings.warn(
            f"aoti_plugins was not tested with {' and '.join(newer)}; where it does not fit, "
            "lowering ends with an error. A newer aoti_plugins may be there: "
            "pip install --upgrade aoti-plugins",
            UntestedVersionWarning,
            stacklevel=2,
        )


def tested_range() -> str:
    """For messages: ``"2.11 to 2.15"``."""
    return f"{_text(OLDEST_TORCH)} to {_text(NEWEST_TORCH)}"


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _parsed(version: str) -> Version:
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise ValueError(f"not a version: {version!r}")
    return int(found[1]), int(found[2])


def _text(version: Version) -> str:
    return ".".join(map(str, version))
