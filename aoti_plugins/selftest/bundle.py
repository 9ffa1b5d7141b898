"""The file that a self-test is: a zip archive with programs and recorded calls.

``manifest.json`` lists the cases; each has ``<name>.pte`` and ``<name>.npz`` with the arrays
``call<i>_input<j>`` and ``call<i>_output<j>``.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy

from aoti_plugins.destinations import write_bytes
from aoti_plugins.errors import ProgramError

_VERSION = 1
_MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Case:
    """One program of a self-test.

    Attributes:
        name: unique in the bundle.
        description: what it is about, for a person.
        rtol: largest relative difference of an output from the recorded one.
        atol: largest absolute difference beside it.
    """

    name: str
    description: str
    rtol: float
    atol: float


@dataclass(frozen=True)
class Call:
    """One recorded call: arrays in the order of the method's inputs and outputs."""

    inputs: Sequence[numpy.ndarray]
    outputs: Sequence[numpy.ndarray]


@dataclass(frozen=True)
class Bundle:
    """A self-test that was read.

    Attributes:
        path: of the file.
        device: the device that programs are for.
        built_with: versions of the packages that made it, by name.
        cases: in the order in which they are to be run.
    """

    path: Path
    device: str
    built_with: Mapping[str, str]
    cases: tuple[Case, ...]

    def program(self, case: Case) -> bytes:
        """The bytes of a case's program."""
        return self._read(f"{case.name}.pte")

    def calls(self, case: Case) -> list[Call]:
        """What was recorded, in order; state goes from call to call."""
        with numpy.load(io.BytesIO(self._read(f"{case.name}.npz"))) as arrays:
            found = {name: arrays[name] for name in arrays.files}
        count = 1 + max(int(name.removeprefix("call").partition("_")[0]) for name in found)
        return [
            Call(_in_order(found, f"call{i}_input"), _in_order(found, f"call{i}_output"))
            for i in range(count)
        ]

    def _read(self, name: str) -> bytes:
        try:
            with zipfile.ZipFile(self.path) as archive:
                return archive.read(name)
        except (OSError, KeyError, zipfile.BadZipFile) as error:
            raise _unreadable(self.path, error) from error


def _in_order(arrays: Mapping[str, numpy.ndarray], prefix: str) -> list[numpy.ndarray]:
    return [arrays[f"{prefix}{i}"] for i in range(sum(name.startswith(prefix) for name in arrays))]


def read_bundle(path: Path) -> Bundle:
    """Read the manifest of a bundle.

    Raises:
        ProgramError: there is no such file, it is no bundle, or one of another version.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            manifest: dict[str, Any] = json.loads(archive.read(_MANIFEST))
        version = manifest["version"]
        cases = tuple(Case(**case) for case in manifest["cases"]) if version == _VERSION else ()
        device, built_with = manifest["device"], manifest["built_with"]
    except (OSError, KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
        raise _unreadable(path, error) from error
    if version != _VERSION:
        raise ProgramError(
            f"{str(path)!r} is a self-test of version {version}; this aoti-plugins reads version "
            f"{_VERSION}: use the one that made it"
        )
    return Bundle(path, device, built_with, cases)


def write_bundle(
    path: Path,
    device: str,
    built_with: Mapping[str, str],
    contents: Sequence[tuple[Case, bytes, Sequence[Call]]],
) -> int:
    """Write a bundle, whole or not at all.

    Args:
        path: the file; one that is there is replaced.
        device: that the programs are for.
        built_with: versions by package.
        contents: cases, each with its program and its calls.

    Returns:
        How many bytes it has.

    Raises:
        DestinationError: the file cannot be written.
    """
    manifest = {
        "version": _VERSION,
        "device": device,
        "built_with": dict(built_with),
        "cases": [asdict(case) for case, _, _ in contents],
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_MANIFEST, json.dumps(manifest, indent=2))
        for case, program, calls in contents:
            archive.writestr(f"{case.name}.pte", program)
            archive.writestr(f"{case.name}.npz", _arrays(calls))
    write_bytes(path, file.getbuffer())
    return len(file.getbuffer())


def _arrays(calls: Sequence[Call]) -> bytes:
    named: dict[str, Any] = {}
    for i, call in enumerate(calls):
        named.update({f"call{i}_input{j}": array for j, array in enumerate(call.inputs)})
        named.update({f"call{i}_output{j}": array for j, array in enumerate(call.outputs)})
    file = io.BytesIO()
    numpy.savez(file, **named)
    return file.getvalue()


def _unreadable(path: Path, error: Exception) -> ProgramError:
    return ProgramError(
        f"{str(path)!r} is no self-test: {type(error).__name__}: {error}. Make one with "
        "'aoti-plugins selftest make'."
    )
