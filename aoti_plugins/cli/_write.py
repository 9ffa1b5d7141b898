"""Write a program and its data files."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from aoti_plugins.destinations import check_destination, is_stream, move_into_place, writing
from aoti_plugins.errors import LoweringError


def check_data_file(output: Path, tag: str) -> None:
    """Find out, before anything is computed, whether weights can be written beside a program.

    Args:
        output: where the program goes.
        tag: the partitioner's ``external_data``: the stem of the file's name, or nothing.

    Raises:
        LoweringError: they cannot.
    """
    if not tag:
        return
    if "/" in tag:
        raise LoweringError(f"external_data is the stem of a file's name; found {tag!r}")
    if is_stream(output):
        raise LoweringError(
            f"weights outside the program go beside it, and {str(output)!r} is no file"
        )
    check_destination(output.with_name(f"{tag}.ptd"))


def write_program(program: Any, output: Path) -> tuple[bytes | None, list[Path]]:
    """Write program and data files whole or not at all, the program last.

    Returns:
        The program, where it cannot be read from ``output``, and the data files.
    """
    if is_stream(output):
        with writing(output) as file:
            program.write_to_file(file)
        return program.buffer, []
    with tempfile.TemporaryDirectory(dir=output.parent, prefix=".aoti-plugins-") as name:
        program.write_tensor_data_to_file(name)
        staged = sorted(Path(name).glob("*.ptd"))
        with writing(output) as file:
            program.write_to_file(file)
            for path in staged:
                move_into_place(path, output.with_name(path.name))
    return None, [output.with_name(path.name) for path in staged]
