"""Pack our Python sources and libraries that were built elsewhere into a wheel.

Equal contents give equal bytes: files are sorted, and all have one time, ``SOURCE_DATE_EPOCH`` or
that of the last commit. A wheel that is larger than ``MOST_NBYTES`` is refused.
"""

from __future__ import annotations

import base64
import email
import hashlib
import os
import subprocess
import tempfile
import time
import zipfile
from pathlib import Path

import scikit_build_core.build
import zopfli
from bill_of_materials import Component, document, licence_expression

PROJECT = Path(__file__).resolve().parents[2]
MOST_NBYTES = 5_000_000
_OLDEST = 315_532_800  # 1980: zip files know no time before


def pack(
    contents: dict[Path, str], output: Path, platform: str, components: list[Component]
) -> Path:
    """Pack the package with files that were built for a platform.

    Args:
        contents: files and folders, each with its place in the package ``aoti_plugins``.
        output: folder to write to.
        platform: of the wheel's tag, such as ``"manylinux_2_28_aarch64"``.
        components: what of others is in the libraries.

    Returns:
        The wheel's path.
    """
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        plain = _plain_wheel(contents, Path(folder), platform)
        files = _with_terms(_read(plain), components)
        path = output / plain.name
        _write(files, path)
    check_size(path)
    return path


def check_size(wheel: Path) -> None:
    """Remove a wheel that is larger than ``MOST_NBYTES``, and end with what is in it."""
    nbytes = wheel.stat().st_size
    if nbytes <= MOST_NBYTES:
        return
    with zipfile.ZipFile(wheel) as archive:
        entries = sorted(archive.infolist(), key=lambda entry: entry.compress_size, reverse=True)
    wheel.unlink()
    largest = "".join(f"\n  {entry.compress_size:9} {entry.filename}" for entry in entries[:5])
    raise SystemExit(
        f"{wheel.name} would have {nbytes} bytes, {MOST_NBYTES} are allowed; most are in:{largest}"
    )


def _plain_wheel(contents: dict[Path, str], folder: Path, platform: str) -> Path:
    settings: dict[str, str | list[str]] = {
        "wheel.cmake": "false",  # that would build for this machine
        "wheel.platlib": "true",
        "wheel.tags": [f"py3-none-{platform}"],
        **{
            f"wheel.force-include.{source.resolve()}": f"aoti_plugins/{place}"
            for source, place in contents.items()
        },
    }
    here = Path.cwd()
    os.chdir(PROJECT)
    try:
        return folder / scikit_build_core.build.build_wheel(str(folder), settings)
    finally:
        os.chdir(here)


def _read(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}


def _with_terms(files: dict[str, bytes], components: list[Component]) -> dict[str, bytes]:
    """The files of a wheel with licences and a bill of materials, and a new record of them all."""
    (record,) = (name for name in files if name.endswith(".dist-info/RECORD"))
    information = record.removesuffix("/RECORD")
    header, blank, text = files[f"{information}/METADATA"].decode().partition("\n\n")
    metadata = email.message_from_string(header)
    name, version, own = metadata["Name"], metadata["Version"], metadata["License-Expression"]
    added = {
        f"third_party/{one.name}.txt": one.text.read_bytes()
        for one in sorted(components, key=lambda one: one.name)
        if one.text is not None
    }
    lines = [line for line in header.splitlines() if not line.startswith("License-Expression:")]
    lines.append(f"License-Expression: {licence_expression(own, components)}")
    lines += [f"License-File: {path}" for path in added]
    made = {
        **files,
        **{f"{information}/licenses/{path}": content for path, content in added.items()},
        f"{information}/sboms/{name}.cdx.json": document(name, version, own, components).encode(),
        f"{information}/METADATA": ("\n".join(lines) + blank + text).encode(),
    }
    made[record] = _record({path: text for path, text in made.items() if path != record}, record)
    return made


def _record(files: dict[str, bytes], name: str) -> bytes:
    lines = []
    for path, content in sorted(files.items()):
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{name},,\n"]).encode()


def _write(files: dict[str, bytes], path: Path) -> None:
    moment = time.gmtime(max(_epoch(), _OLDEST))[:6]
    # The information comes last, as the format asks for, and of it the record.
    order = sorted(files, key=lambda name: (".dist-info/" in name, name.endswith("/RECORD"), name))
    # Everybody reads what zopfli packs, which is smaller by a thirtieth.
    with zopfli.ZipFile(path, "w", zipfile.ZIP_DEFLATED, block_splitting_max=0) as archive:
        for name in order:
            entry = zipfile.ZipInfo(name, moment)
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])


def _epoch() -> int:
    if epoch := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(epoch)
    command = ["git", "-C", str(PROJECT), "log", "-1", "--format=%ct"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else _OLDEST
