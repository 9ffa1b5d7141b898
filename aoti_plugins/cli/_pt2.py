"""Reads exported models (``.pt2``) and says in one line what is wrong with a file that is none."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aoti_plugins.errors import LoweringError

_MODEL = re.compile(r"(.*/)?models/[^/]+\.json|serialized_exported_program\.json")
_COMPILED = re.compile(r"(.*/)?data/aotinductor/.*")


def check_model(path: Path) -> None:
    """Find out, without torch, whether a file can be an exported model.

    Raises:
        LoweringError: it cannot; says what the file is.
    """
    if path.is_dir():
        raise LoweringError(f"{str(path)!r} is a folder; {_expected()}")
    if not path.is_file():
        raise LoweringError(f"there is no file {str(path)!r}")
    problem = _problem(path)
    if problem:
        raise LoweringError(f"{str(path)!r} {problem}")


def load_model(path: Path) -> Any:
    """Read an exported model.

    Raises:
        LoweringError: it cannot be read; says which versions are meant where that is why.
    """
    import torch

    check_model(path)
    with _logged_causes("torch.export") as causes:
        try:
            return torch.export.load(path)
        except Exception as error:
            reason = _first_line(causes[-1] if causes else error)
            problem = _other_version(path) or f"cannot be read: {reason}; {_expected()}"
            raise LoweringError(f"{str(path)!r} {problem}") from error


def _expected() -> str:
    return "expected what torch.export.save wrote"


def _problem(path: Path) -> str | None:
    with path.open("rb") as file:
        head = file.read(8)
    if not head:
        return f"is empty; {_expected()}"
    if head[4:6] == b"ET":
        return "is a program already, that was lowered from an exported model (.pt2)"
    if not head.startswith(b"PK\x03\x04"):
        return f"is no exported model: it begins with {head!r}; {_expected()}"
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            # The one that ends a file that was cut off may be that of an archive within.
            is_whole = any(info.header_offset == 0 for info in archive.infolist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        is_whole = False
    if not is_whole:
        return "is cut off or damaged: its table of contents is missing. Copy it or export it again"
    if any(map(_MODEL.fullmatch, names)):
        return None
    if any(map(_COMPILED.fullmatch, names)):
        return f"holds code that AOTInductor compiled, not a model; {_expected()}"
    return f"is an archive without an exported model, such as torch.save writes; {_expected()}"


def _other_version(path: Path) -> str | None:
    """Say which versions wrote and read a model, if these are why it cannot be read."""
    import torch
    from torch._export.serde.schema import SCHEMA_VERSION

    try:
        with zipfile.ZipFile(path) as archive:
            name = next(name for name in archive.namelist() if _MODEL.fullmatch(name))
            model = json.loads(archive.read(name))
        found = (int(model["schema_version"]["major"]), int(model["schema_version"]["minor"]))
        writer = model.get("torch_version", "of an unknown version")
    except (OSError, zipfile.BadZipFile, KeyError, TypeError, ValueError):
        return None
    if found[0] == SCHEMA_VERSION[0] and found <= tuple(SCHEMA_VERSION):
        return None
    return (
        f"was exported with torch {writer}, in version {found[0]}.{found[1]} of its schema; this "
        f"torch {torch.__version__} reads version {SCHEMA_VERSION[0]}.{SCHEMA_VERSION[1]}: install "
        "the torch that wrote it, or export the model again with this one"
    )


@contextlib.contextmanager
def _logged_causes(name: str) -> Iterator[list[BaseException]]:
    """Collect the exceptions that a logger would print, in place of printing them."""
    causes: list[BaseException] = []

    def collect(record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            causes.append(error)
        return error is None

    logger = logging.getLogger(name)
    logger.addFilter(collect)
    try:
        yield causes
    finally:
        logger.removeFilter(collect)


def _first_line(error: BaseException) -> str:
    text = str(error).partition("\n")[0].partition(". This is an internal")[0].rstrip(". ")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
