"""From a partitioner's options to a program and its data files: what commands that lower share."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aoti_plugins.compile_specs import decode
from aoti_plugins.destinations import check_destination, is_stream, move_into_place, writing
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.stage_display import StageDisplay


def chosen_partitioner(
    partitioner: Callable[..., Any],
    options: Mapping[str, Any],
    output: Path,
    external_weights: bool,
) -> Any:
    """Make a partitioner, and find out whether weights can be written beside a program.

    Args:
        partitioner: its class.
        options: the user's.
        output: where the program goes.
        external_weights: whether weights go beside it, where the options do not say so.

    Raises:
        LoweringError: they cannot.
    """
    more = {"external_data": True} if external_weights else {}
    chosen = partitioner(**{**more, **options})
    _check_data_file(output, decode(chosen.delegation_spec.compile_specs).external_data)
    return chosen


def lowered(
    exported: Mapping[str, Any], partitioner: Any, display: StageDisplay, **options: Any
) -> Any:
    """Lower exported methods and show how far it is.

    Args:
        exported: by name.
        partitioner: what ``chosen_partitioner`` made.
        display: where stages are shown.
        options: more for ``to_edge_transform_and_lower``.

    Returns:
        ExecuTorch's program manager.
    """
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins.plugin_system.manager import get_manager

    with display.stage("lower"), get_manager().registered(display, "command-line-progress"):
        edge = to_edge_transform_and_lower(dict(exported), partitioner=[partitioner], **options)
    with display.stage("to_executorch"):
        return edge.to_executorch()


def _check_data_file(output: Path, tag: str) -> None:
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
