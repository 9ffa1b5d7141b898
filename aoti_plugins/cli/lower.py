"""``aoti-plugins lower``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from aoti_plugins.cli._lowering import chosen_partitioner, lowered, write_program
from aoti_plugins.cli._options import PATH, device_options, lowering_options, partitioner_for
from aoti_plugins.cli._output import (
    console,
    error_console,
    json_option,
    nbytes_text,
    print_report,
    table,
)
from aoti_plugins.cli._pt2 import check_model, load_model
from aoti_plugins.cli._pte import inspect_program
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.cli._text import echo
from aoti_plugins.destinations import check_destination
from aoti_plugins.lowering.stage_display import StageDisplay
from aoti_plugins.units import seconds_text


@click.command()
@click.argument("model", type=PATH)
@click.option("-o", "--output", type=PATH, help="[default: MODEL.pte]")
@device_options
@click.option(
    "--external-weights", is_flag=True, help="Put the weights into a .ptd file next to the program."
)
@click.option("--method", default="forward", show_default=True, help="Name of the method.")
@json_option
def command(
    model: Path,
    output: Path | None,
    device: str,
    option_texts: tuple[str, ...],
    exclude: tuple[str, ...],
    external_weights: bool,
    method: str,
    as_json: bool,
) -> None:
    """Turn an exported model (.pt2) into a program (.pte).

    MODEL is what torch.export.save wrote.
    """
    output = output or model.with_suffix(".pte")
    check_model(model)
    check_destination(output, read=[model])
    start = time.perf_counter()
    with StageDisplay(error_console()) as display:
        with display.stage("import torch and executorch"):
            quiet()
            partitioner = partitioner_for(device)
        options = lowering_options(option_texts, exclude, partitioner)
        chosen = chosen_partitioner(partitioner, options, output, external_weights)
        program, data_files = _lower(model, output, chosen, method, display)
    report = {
        **inspect_program(output, program),
        "seconds": time.perf_counter() - start,
        "stages": display.stages,
        "data_files": {str(path): path.stat().st_size for path in data_files},
    }
    print_report(report, as_json, _show)


def _lower(
    model: Path, output: Path, partitioner: Any, method: str, display: StageDisplay
) -> tuple[bytes | None, list[Path]]:
    """Do the work; returns what ``write_program`` does."""
    with display.stage(f"load {model.name}"):
        exported = load_model(model)
    program = lowered({method: exported}, partitioner, display)
    with display.stage(f"write {output.name}"):
        return write_program(program, output)


def _show(report: dict[str, Any]) -> None:
    rows = [("program", report["file"], nbytes_text(report["nbytes"]))]
    rows += [(one["kind"], one["key"], nbytes_text(one["nbytes"])) for one in report["named_data"]]
    rows += [("data file", name, nbytes_text(size)) for name, size in report["data_files"].items()]
    title = f"Lowered in {seconds_text(report['seconds'])}"
    console().print(table(title, ("what", "name", ">size"), rows))
    for method in report["methods"]:
        if not method["delegates"]:
            echo(f"warning: nothing of method {method['name']!r} was delegated", err=True)
