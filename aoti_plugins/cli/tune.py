"""``aoti-plugins tune``: make, merge and show tuning records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from aoti_plugins.cli._options import PATH
from aoti_plugins.cli._output import console, error_console, json_option, print_json, table
from aoti_plugins.cli._pt2 import check_model, load_model
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.cli._text import echo
from aoti_plugins.cuda.tuning.records import PRODUCT, Entry, Records
from aoti_plugins.destinations import check_destination
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.stage_display import StageDisplay

_output_option = click.option(
    "-o", "--output", type=PATH, required=True, help="The record file to write."
)


@click.group()
def command() -> None:
    """Make, merge and show tuning records for NVIDIA GPUs.

    A record holds the fastest configurations that were measured on one GPU. Lowering for such a GPU
    on a machine without one then uses them:

    \b
      on the GPU:  aoti-plugins tune record model.pt2 -o h100.json
      elsewhere:   aoti-plugins lower model.pt2 --device cuda \\
                       --option target=h100 --option tuning=h100.json

    Every subcommand takes --json.
    """  # noqa: D301


@command.command()
@click.argument("models", type=PATH, nargs=-1, required=True)
@_output_option
@json_option
def record(models: tuple[Path, ...], output: Path, as_json: bool) -> None:
    """Measure the kernels of exported models (.pt2) on the GPU of this machine.

    What OUTPUT holds already is kept where it is faster.
    """
    _check_models(models)
    check_destination(output, read=models, is_merged=True)
    with StageDisplay(error_console()) as display:
        with display.stage("look for a GPU"):
            quiet()
            gpu = _gpu_of_this_machine()
        before = Records.load([output] if output.exists() else [])
        for model in models:
            _lower(model, output, display)
    after = Records.load([output])
    report = {"gpu": gpu, "output": str(output), "entries": len(after), **_changes(before, after)}
    if as_json:
        print_json(report)
    else:
        echo(
            f"{output}: {report['entries']} entries, {report['new']} new, "
            f"{report['faster']} faster than before, measured on {gpu}"
        )


@command.command()
@click.argument("files", type=PATH, nargs=-1, required=True)
@_output_option
@json_option
def merge(files: tuple[Path, ...], output: Path, as_json: bool) -> None:
    """Merge record files; of two entries for one kernel the faster stays.

    The order of FILES does not matter.
    """
    check_destination(output)
    merged = Records.load(files)
    merged.save(output)
    report = {"files": [str(path) for path in files], "output": str(output), "entries": len(merged)}
    if as_json:
        print_json(report)
    else:
        echo(f"{output}: {len(merged)} entries from {len(files)} files")


@command.command()
@click.argument("files", type=PATH, nargs=-1, required=True)
@json_option
def show(files: tuple[Path, ...], as_json: bool) -> None:
    """Show what record files hold."""
    records = Records.load(files)
    if as_json:
        print_json([entry.as_json() for entry in records])
        return
    rows = sorted(_row(entry) for entry in records)
    columns = ("kind", "what", "configuration", ">µs", "measured with")
    console().print(table(f"{len(records)} entries", columns, rows))


def _check_models(models: tuple[Path, ...]) -> None:
    for model in models:
        if model.suffix == ".pte":
            raise LoweringError(
                f"{str(model)!r} is a program whose kernels are chosen already; "
                "tune the exported model (.pt2) that it was lowered from"
            )
        check_model(model)


def _gpu_of_this_machine() -> str:
    import torch

    from aoti_plugins.cuda.target import device_target

    if device_target() is None:
        build = "for CUDA" if torch.backends.cuda.is_built() else "for the CPU only"
        raise LoweringError(
            "tuning measures kernels, and PyTorch sees no NVIDIA GPU on this machine "
            f"(torch {torch.__version__} is built {build}).\n"
            "Run `aoti-plugins tune record` on a machine with the GPU and copy the file; "
            "`merge` and `show` work everywhere."
        )
    return torch.cuda.get_device_name()


def _lower(model: Path, output: Path, display: StageDisplay) -> None:
    """Lower for the GPU of this machine and drop the program: what counts is what was measured."""
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins.cuda.partitioner import CudaPartitioner
    from aoti_plugins.cuda.target import NATIVE
    from aoti_plugins.plugin_system.manager import get_manager

    with display.stage(f"load {model.name}"):
        exported = load_model(model)
    partitioner = CudaPartitioner(target=NATIVE, max_autotune=True, save_tuning=str(output))
    with (
        display.stage(f"measure {model.name}"),
        get_manager().registered(display, "command-line-progress"),
    ):
        to_edge_transform_and_lower(exported, partitioner=[partitioner])
    if not output.exists():
        raise LoweringError(f"nothing of {model.name} was lowered, so nothing was measured")


def _changes(before: Records, after: Records) -> dict[str, int]:
    known = {entry.key: entry for entry in before}
    new = [entry for entry in after if entry.key not in known]
    faster = [entry for entry in after if entry.key in known and entry != known[entry.key]]
    return {"new": len(new), "faster": len(faster)}


def _row(entry: Entry) -> tuple[Any, ...]:
    return (
        entry.key.kind,
        str(entry.key).removeprefix("kernel "),
        _configuration(entry),
        f"{entry.time_us:.2f}",
        ", ".join(f"{name} {value}" for name, value in sorted(entry.made_with.items())),
    )


def _configuration(entry: Entry) -> str:
    config, words = dict(entry.config), []
    if entry.key.kind == PRODUCT:
        words = [str(config.pop("choice", None)), str(config.pop("name", ""))]
    words += [f"{name}={value}" for name, value in config.items()]
    return " ".join(filter(None, words))
