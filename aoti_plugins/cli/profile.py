"""``aoti-plugins profile``."""

from __future__ import annotations

import dataclasses
import json
import statistics
import timeit
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.text import Text
from rich.tree import Tree

from aoti_plugins.cli._options import (
    PATH,
    call_options,
    number_option,
    partitioner_for,
    program_argument,
)
from aoti_plugins.cli._output import console, json_option, nbytes_text, print_json, table
from aoti_plugins.cli._pt2 import check_model, load_model
from aoti_plugins.cli._pte import MethodPlan, method_plan
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.cli._values import default_method, inputs_of
from aoti_plugins.destinations import check_destination, write_bytes
from aoti_plugins.payload import KernelRef
from aoti_plugins.profiling.machine import machine_of
from aoti_plugins.profiling.profile import (
    KernelTime,
    Machine,
    ModuleTime,
    kernel_times,
    module_tree,
)
from aoti_plugins.profiling.report import Page, html, share_text
from aoti_plugins.profiling.trace import trace_events
from aoti_plugins.runtime import CallEvent, Program
from aoti_plugins.units import seconds_text

_NOT_ASKED = "give --model with the exported model to be told why"
_NOT_REFUSED = "a plan refuses no such op: lowered with other options, or made by ExecuTorch"


@dataclasses.dataclass(frozen=True)
class _Profile:
    program: Path
    method: str
    plan: MethodPlan
    call_seconds: float
    calls: list[tuple[CallEvent, ...]]
    kernels: tuple[KernelTime, ...]
    tree: ModuleTime
    machine: Machine
    outside: tuple[tuple[str, str, str], ...]


@click.command()
@program_argument
@call_options
@number_option("--warmup", default=3)
@number_option("--repeat", default=20, least=1, help="Calls to time, and as many to watch.")
@click.option(
    "--model",
    type=PATH,
    help="The exported model (.pt2): says why ops stayed outside of delegates.",
)
@click.option(
    "--trace", "trace_path", type=PATH, help="Write the calls as Chrome trace events, for Perfetto."
)
@click.option(
    "--html",
    "html_path",
    type=PATH,
    help="Write one page: timeline, modules, kernels, memory, what stayed outside.",
)
@json_option
def command(
    program: Path,
    data_files: tuple[Path, ...],
    method_name: str | None,
    sources: tuple[str, ...],
    random_seed: int,
    warmup: int,
    repeat: int,
    model: Path | None,
    trace_path: Path | None,
    html_path: Path | None,
    as_json: bool,
) -> None:
    """Run a program and show where the time goes: kernels, their lines and modules.

    Half of the calls are timed as they are, the others are watched: on a GPU without CUDA graphs,
    one kernel behind the other. Of programs that older versions lowered only calls of delegates
    are seen. Times hold the watching: about 0.1 µs a kernel on the CPU, 1.5 µs on a GPU.

    \b
      aoti-plugins profile model.pte --trace trace.json --html report.html
    """  # noqa: D301
    for path in (trace_path, html_path):
        if path is not None:
            check_destination(path)
    if model is not None:
        check_model(model)
    with Program(program, data_files=data_files) as loaded:
        name = method_name or default_method(loaded)
        with loaded.method(name) as method:
            inputs = inputs_of(method, sources, random_seed)
            seconds = timeit.repeat(lambda: method(*inputs), number=1, repeat=warmup + repeat)
        with loaded.method(name, trace=True) as method:
            calls = []
            for _ in range(warmup + repeat):
                method(*inputs)
                calls.append(method.events())
    found = _profiled(program, name, statistics.median(seconds[warmup:]), calls[warmup:], model)
    if trace_path is not None:
        write_bytes(trace_path, json.dumps(trace_events(found.calls, _origins(found))).encode())
    if html_path is not None:
        write_bytes(html_path, html(_page(found)).encode())
    if as_json:
        print_json(_report(found))
    else:
        _show(found)


def _profiled(
    program: Path,
    name: str,
    call_seconds: float,
    calls: list[tuple[CallEvent, ...]],
    model: Path | None,
) -> _Profile:
    plan = method_plan(program, name)
    kernels = kernel_times(calls, plan.delegate_of, plan.kernels)
    return _Profile(
        program=program,
        method=name,
        plan=plan,
        call_seconds=call_seconds,
        calls=calls,
        kernels=kernels,
        tree=module_tree(kernels),
        machine=machine_of(plan.device),
        outside=tuple(_outside(plan, model)),
    )


def _outside(plan: MethodPlan, model: Path | None) -> Iterator[tuple[str, str, str]]:
    """Ops outside of delegates: an op, where it is in the model, why it is there."""
    if not plan.outside:
        return
    if model is None:
        yield from ((op, "", _NOT_ASKED) for op in plan.outside)
        return
    quiet()
    from aoti_plugins.lowering.kernel_origins import short_line

    planned = partitioner_for(plan.device)().plan(load_model(model))
    refused: dict[str, list[tuple[str, str]]] = {}
    for one in (one for refusals in planned.outside.values() for one in refusals):
        where = ", ".join(text for text in (one.module, short_line(one.source)) if text)
        refused.setdefault(_plain_name(one.op), []).append((where, one.reason))
    for op in plan.outside:
        for where, why in refused.get(_plain_name(op), [("", _NOT_REFUSED)]):
            yield op, where, why


def _plain_name(op: str) -> str:
    """Without namespace and overload: ``aten::sort.out`` is ``aten.sort.default``."""
    return op.replace("::", ".").split(".")[1].removesuffix("_copy")


def _origins(found: _Profile) -> dict[tuple[int, str], KernelRef]:
    return {
        (instruction, one.origin.name): one.origin
        for instruction, delegate in found.plan.delegate_of.items()
        for one in found.kernels
        if one.delegate == delegate
    }


def _page(found: _Profile) -> Page:
    inside = sum(kernel.seconds for kernel in found.kernels)
    machine = found.machine
    limits = [("memory of this machine", f"{machine.bytes_per_second / 1e9:.1f} GB/s")]
    if machine.flops_per_second:
        limits.append((machine.products, f"{machine.flops_per_second / 1e9:.1f} GFLOP/s"))
    return Page(
        title=f"{found.program.name}: {found.method}",
        facts=(
            ("a call", seconds_text(found.call_seconds)),
            ("of that in kernels", seconds_text(inside)),
            ("calls watched", str(len(found.calls))),
            *limits,
        ),
        call=found.calls[-1],
        kernels=found.kernels,
        tree=found.tree,
        memory=found.plan.memory,
        outside=found.outside,
        machine=found.machine,
    )


def _report(found: _Profile) -> dict[str, Any]:
    return {
        "program": str(found.program),
        "method": found.method,
        "calls": len(found.calls),
        "seconds": found.call_seconds,
        "machine": dataclasses.asdict(found.machine),
        "kernels": [
            {
                **dataclasses.asdict(one.origin),
                "delegate": one.delegate,
                "launches": one.launches,
                "seconds": one.seconds,
                "nbytes": one.nbytes,
                "bandwidth_share": one.bandwidth_share(found.machine),
                "arithmetic_share": one.arithmetic_share(found.machine),
            }
            for one in found.kernels
        ],
        "modules": dataclasses.asdict(found.tree),
        "memory": dict(found.plan.memory),
        "outside": [dict(zip(("op", "where", "why"), one, strict=True)) for one in found.outside],
    }


def _show(found: _Profile) -> None:
    out = console()
    total = sum(one.seconds for one in found.kernels) or 1.0
    rows = [
        (
            one.origin.name,
            seconds_text(one.seconds),
            f"{one.seconds / total:.1%}",
            one.launches,
            nbytes_text(one.nbytes) if one.nbytes else "",
            share_text(one.bandwidth_share(found.machine)),
            share_text(one.arithmetic_share(found.machine)),
            ", ".join(one.origin.modules),
            "\n".join(one.origin.lines),
        )
        for one in found.kernels
    ]
    columns = (
        *("kernel", ">time", ">share", ">launches", ">bytes", ">of bandwidth", ">of arithmetic"),
        *("modules", "lines"),
    )
    title = f"Kernels of {found.method!r} in {found.program}, of {seconds_text(found.call_seconds)}"
    out.print(table(title, columns, rows))
    out.print(module_lines(found.tree))
    if found.outside:
        out.print(table("Outside of delegates", ("op", "where", "why"), found.outside))


def module_lines(tree: ModuleTime) -> Tree:
    """Modules with their times, as the terminal shows them."""
    root = Tree(_label(tree))
    _grow(root, tree)
    return root


def _label(module: ModuleTime) -> Text:
    """As text: names come from the program, and may look like markup."""
    return Text(f"{module.name or 'model'}  {seconds_text(module.seconds)}")


def _grow(branch: Tree, module: ModuleTime) -> None:
    for part in module.parts:
        _grow(branch.add(_label(part)), part)
