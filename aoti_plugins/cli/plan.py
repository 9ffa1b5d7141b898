"""``aoti-plugins plan``."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import click

from aoti_plugins.cli._options import PATH, device_options, lowering_options, partitioner_for
from aoti_plugins.cli._output import (
    console,
    error_console,
    json_option,
    nbytes_text,
    print_json,
    table,
)
from aoti_plugins.cli._pt2 import check_model, load_model
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.cli._text import echo
from aoti_plugins.lowering.stage_display import StageDisplay
from aoti_plugins.units import seconds_text


@click.command()
@click.argument("model", type=PATH)
@device_options
@click.option("--ops", "all_ops", is_flag=True, help="List the ops of each delegate.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    model: Path,
    device: str,
    option_texts: tuple[str, ...],
    exclude: tuple[str, ...],
    all_ops: bool,
    as_json: bool,
) -> None:
    """Show what lowering an exported model (.pt2) would do; compiles nothing.

    What would be in delegates, what would not and why, which kernels of the runtime the code would
    call, and how large the weights are. The exit code is 1 if lowering would end with an error, as
    nobody has a kernel for an op.

    \b
      aoti-plugins plan model.pt2 --device cuda --option target=h100
    """  # noqa: D301
    check_model(model)
    start = time.perf_counter()
    with StageDisplay(error_console()) as display:
        with display.stage("import torch and executorch"):
            quiet()
            partitioner = partitioner_for(device)
        options = lowering_options(option_texts, exclude, partitioner)
        chosen = partitioner(**options)
        with display.stage(f"load {model.name}"):
            exported = load_model(model)
        with display.stage("plan"):
            found = chosen.plan(exported)
    if as_json:
        print_json(_report(found))
    else:
        _show(found, all_ops)
        echo(f"planned in {seconds_text(time.perf_counter() - start)}; nothing was compiled")
    ctx.exit(int(bool(found.missing)))


def _report(found: Any) -> dict[str, Any]:
    return {
        **dataclasses.asdict(found),
        "is_whole": found.is_whole,
        "weights_nbytes": found.weights_nbytes,
        "missing_kernels": sorted({one.op for one in found.missing}),
    }


def _show(found: Any, all_ops: bool) -> None:
    from aoti_plugins.lowering.support import listed

    columns = ("delegate", ">ops", "kernels it calls", ">inputs", ">outputs", ">weights")
    rows = [
        (
            f"{one.method}[{index}]",
            sum(one.ops.values()),
            ", ".join(one.kernels) or "none: all code is generated",
            one.inputs,
            one.outputs,
            nbytes_text(sum(one.weights.values())),
        )
        for index, one in enumerate(found.delegates)
    ]
    console().print(table(f"What {found.device} would run", columns, rows))
    for index, one in enumerate(found.delegates if all_ops else ()):
        counts = sorted(one.ops.items(), key=lambda item: (-item[1], item[0]))
        title = f"Ops of {one.method}[{index}]"
        console().print(table(title, ("op", ">times"), counts))
    for method, refusals in found.outside.items():
        if refusals:
            echo(f"{len(refusals)} op(s) of {method} stay outside:\n{listed(refusals)}")
    echo(_verdict(found))


def _verdict(found: Any) -> str:
    if found.missing:
        ops = ", ".join(sorted({one.op for one in found.missing}))
        return f"lowering would end with an error: ExecuTorch has no kernel for {ops}"
    if not found.delegates:
        return "nothing would be delegated"
    whole = "all of it" if found.is_whole else "a part of it"
    return f"{whole} would be delegated, with weights of {nbytes_text(found.weights_nbytes)}"
