"""``aoti-plugins compare``."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aoti_plugins.cli._options import PATH, data_option, random_seed_option
from aoti_plugins.cli._output import console, error_console, json_option, print_json, table
from aoti_plugins.cli._pt2 import check_model, load_model
from aoti_plugins.cli._pte import delegates_of
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.cli._text import echo
from aoti_plugins.cli._values import random_inputs, read_inputs
from aoti_plugins.compile_specs import without_files
from aoti_plugins.errors import ProgramError
from aoti_plugins.lowering.stage_display import StageDisplay
from aoti_plugins.runtime import Program

if TYPE_CHECKING:
    from aoti_plugins.cli._differences import Difference


@click.command()
@click.argument("model", type=PATH)
@click.argument("program", type=PATH)
@data_option
@click.option("--method", default="forward", show_default=True, help="The program's method.")
@click.option(
    "-i",
    "--input",
    "sources",
    multiple=True,
    metavar="FILE|NUMBER",
    help="An input, as for run; may be repeated.  [default: those that the model was exported "
    "with, or random ones]",
)
@random_seed_option
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    help="The largest error over the largest value.  [default: 1e-4 for float32, 2e-2 and 5e-2 for "
    "float16 and bfloat16, 1e-9 for float64, 0 for integers]",
)
@click.option("--ops", "wants_ops", is_flag=True, help="Compare op by op also where outputs agree.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    model: Path,
    program: Path,
    data_files: tuple[Path, ...],
    method: str,
    sources: tuple[str, ...],
    random_seed: int,
    tolerance: float | None,
    wants_ops: bool,
    as_json: bool,
) -> None:
    """Compare a program (.pte) with the exported model (.pt2) that it was lowered from.

    Both run on the same inputs, the model in eager PyTorch on the CPU. Where outputs differ by more
    than rounding explains, the model is lowered again with all its ops as outputs, for the same
    device with the same options, and the first op is named at which the two part. The exit code is
    1 if outputs differ.

    \b
      aoti-plugins compare model.pt2 model.pte
    """  # noqa: D301
    check_model(model)
    with StageDisplay(error_console()) as display:
        with display.stage("import torch and executorch"):
            quiet()
            from aoti_plugins.cli._differences import difference
            from aoti_plugins.lowering.steps import StepwiseModule
        with display.stage(f"load {model.name}"):
            exported = load_model(model)
        with Program(program, data_files=data_files) as loaded:
            chosen = loaded.method(method)
            inputs = _inputs(exported, chosen, sources, random_seed)
            with display.stage("eager PyTorch"):
                expected = _eager(exported, inputs)
            with display.stage(program.name):
                found = chosen(*inputs)
        if len(found) != len(expected):
            raise ProgramError(
                f"{str(program)!r} has {len(found)} outputs and {str(model)!r} {len(expected)}: "
                "it was not lowered from this model"
            )
        outputs = [difference(e, f, tolerance) for e, f in zip(expected, found, strict=True)]
        is_near = all(one.is_near for one in outputs)
        steps: list[tuple[Any, Difference]] = []
        if wants_ops or not is_near:
            stepwise = StepwiseModule(exported)
            lowered = _lowered_again(stepwise, inputs, delegates_of(program, method), display)
            steps = _by_op(stepwise, inputs, lowered, tolerance)
    report = _report(outputs, steps)
    if as_json:
        print_json(report)
    else:
        _show(outputs, steps, wants_ops)
    ctx.exit(int(not is_near))


def _inputs(exported: Any, method: Any, sources: Sequence[str], seed: int) -> list[Any]:
    """Flat values: the user's, the example's, or random ones."""
    import torch

    if sources:
        return read_inputs(sources, method)
    if exported.example_inputs is None:
        return random_inputs(method, seed)
    leaves = torch.utils._pytree.tree_leaves(exported.example_inputs)
    return [one.detach() if isinstance(one, torch.Tensor) else one for one in leaves]


def _eager(exported: Any, inputs: Sequence[Any]) -> list[Any]:
    import torch

    pytree = torch.utils._pytree
    given, spec = _copied(inputs), exported.call_spec.in_spec
    if len(given) != spec.num_leaves:
        raise ProgramError(f"the model takes {spec.num_leaves} inputs, {len(given)} were given")
    args, kwargs = pytree.tree_unflatten(given, spec)
    with torch.no_grad(), _state_of(exported):
        return list(pytree.tree_leaves(exported.module()(*args, **kwargs)))


def _lowered_again(
    stepwise: Any, inputs: Sequence[Any], delegates: Sequence[Any], display: StageDisplay
) -> bytes:
    """A program that gives the values of all ops, for the device that the other one is for."""
    import torch
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins.plugin_system.devices import delegates as devices

    by_id = {device.backend().__name__: device for device in devices().values()}
    ours = [(by_id[name], specs) for name, specs in delegates if name in by_id]
    if not ours:
        raise ProgramError("the outputs differ, and the program has no delegate of ours to look at")
    device, specs = ours[0]
    with display.stage("lower the model with all ops as outputs"), torch.no_grad():
        exported = torch.export.export(stepwise, tuple(_copied(inputs)))
        partitioner = device.partitioner()(compile_specs=without_files(specs))
        edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
        return bytes(edge.to_executorch().buffer)


def _by_op(
    stepwise: Any, inputs: Sequence[Any], lowered: bytes, tolerance: float | None
) -> list[tuple[Any, Difference]]:
    import torch

    from aoti_plugins.cli._differences import difference

    with torch.no_grad(), _state_of(stepwise.module):
        expected = stepwise(*_copied(inputs))
    with Program(lowered) as program:
        found = program(*inputs)
        differences = [difference(e, f, tolerance) for e, f in zip(expected, found, strict=True)]
    return list(zip(stepwise.steps, differences, strict=True))


@contextlib.contextmanager
def _state_of(model: Any) -> Iterator[None]:
    """Give the buffers of a model or an exported program their values back."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    try:
        yield
    finally:
        for name, buffer in model.named_buffers():
            buffer.copy_(before[name])


def _copied(values: Sequence[Any]) -> list[Any]:
    return [one.clone() if hasattr(one, "clone") else one for one in values]


def _parting(steps: Sequence[tuple[Any, Difference]]) -> tuple[Any, Difference] | None:
    return next(((step, one) for step, one in steps if not one.is_near), None)


def _report(outputs: Sequence[Difference], steps: Sequence[Any]) -> dict[str, Any]:
    parting = _parting(steps)
    return {
        "is_near": all(one.is_near for one in outputs),
        "outputs": [{**dataclasses.asdict(one), "is_near": one.is_near} for one in outputs],
        "first_op": dataclasses.asdict(parting[0]) if parting else None,
        "ops": [{**dataclasses.asdict(s), **dataclasses.asdict(one)} for s, one in steps],
    }


def _show(outputs: Sequence[Difference], steps: Sequence[Any], wants_ops: bool) -> None:
    columns = ("", ">index", "dtype", "shape", ">largest", ">error", ">allowed", "")
    rows = [("output", index, *_cells(one)) for index, one in enumerate(outputs)]
    console().print(table("Outputs against eager PyTorch", columns, rows))
    if wants_ops:
        columns = ("op", "node", "dtype", "shape", ">largest", ">error", ">allowed", "")
        rows = [(step.op, step.node, *_cells(one)) for step, one in steps]
        console().print(table("Ops", columns, rows))
    if steps:
        echo(_where(_parting(steps), all(one.is_near for one in outputs)))


def _cells(one: Difference) -> tuple[str, ...]:
    verdict = one.problem or ("" if one.is_near else "differs")
    numbers = (f"{number:.3g}" for number in (one.largest, one.error, one.allowed))
    return (one.dtype, str(list(one.shape)), *numbers, verdict)


def _where(parting: tuple[Any, Difference] | None, outputs_agree: bool) -> str:
    if parting is not None:
        step, one = parting
        places = (("module", step.module), ("source", step.source))
        where = "".join(f"\n    {name}: {text}" for name, text in places if text)
        what = one.problem or f"error {one.error:.3g} where {one.allowed:.3g} is allowed"
        return f"they part at {step.op} (node {step.node!r}): {what}{where}"
    if outputs_agree:
        return "all ops agree with eager PyTorch"
    return (
        "op by op they agree, so the difference comes with what the program fuses, or it was "
        "lowered from other weights or by other versions: lower the model again, and compare"
    )
