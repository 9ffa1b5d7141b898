"""``aoti-plugins run``."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from aoti_plugins.cli._options import PATH, call_options, number_option, program_argument
from aoti_plugins.cli._output import console, json_option, print_report, table
from aoti_plugins.cli._values import check_output_path, default_method, inputs_of, save_outputs
from aoti_plugins.runtime import Program, current_place
from aoti_plugins.units import seconds_text


@click.command()
@program_argument
@call_options
@number_option(
    "--warmup",
    default=1,
    least=1,
    help="Calls before the timed ones; the first is reported by itself.",
)
@number_option("--repeat", default=10, least=1, help="Timed calls.")
@click.option(
    "--save-outputs", "output_path", type=PATH, help="Write the outputs to an .npz or .pt file."
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
    output_path: Path | None,
    as_json: bool,
) -> None:
    """Run a program on given or random inputs and time it.

    A program for several ranks is run by as many processes, and rank 0 says what came of it:

    \b
      torchrun --nproc-per-node 2 -m aoti_plugins run model.pte
    """  # noqa: D301
    if output_path:
        check_output_path(output_path)
    times: dict[str, float] = {}
    loaded = _timed(times, "load_program", lambda: Program(program, data_files=data_files))
    with loaded:
        name = method_name or default_method(loaded)
        method = _timed(times, "load_method", lambda: loaded.method(name))
        inputs = inputs_of(method, sources, random_seed)
        outputs = _timed(times, "first_call", lambda: method(*inputs))
        for _ in range(warmup - 1):
            method(*inputs)
        calls = timeit.repeat(lambda: method(*inputs), repeat=repeat, number=1)
    times["median_call"] = statistics.median(calls)
    times["fastest_call"] = min(calls)
    times["slowest_call"] = max(calls)
    report = {
        "program": str(program),
        "method": name,
        "inputs": [_describe(value) for value in inputs],
        "random_inputs": not sources,
        "outputs": [_describe(value) for value in outputs],
        "seconds": times,
        "repeat": repeat,
    }
    if current_place()[0] != 0:
        return  # rank 0 says what all have
    if output_path:
        save_outputs(outputs, output_path)
    print_report(report, as_json, _show)


def _timed(times: dict[str, float], name: str, work: Callable[[], Any]) -> Any:
    start = time.perf_counter()
    result = work()
    times[name] = time.perf_counter() - start
    return result


def _describe(value: Any) -> dict[str, Any]:
    if not hasattr(value, "shape"):
        return {"value": value}
    facts = {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
    if 0 in value.shape or "complex" in facts["dtype"]:
        return facts
    wide = value.double() if hasattr(value, "double") else value.astype("float64")
    for name in ("min", "max", "mean", "sum"):
        facts[name] = getattr(wide, name)().item()
    return facts


def _show(report: dict[str, Any]) -> None:
    out = console()
    made_up = " (random)" if report["random_inputs"] else ""
    rows = [("input" + made_up, i, *_cells(one)) for i, one in enumerate(report["inputs"])]
    rows += [("output", i, *_cells(one)) for i, one in enumerate(report["outputs"])]
    columns = ("what", ">index", "dtype", "shape", ">min", ">max", ">mean", ">sum")
    out.print(table(f"Method {report['method']!r} of {report['program']}", columns, rows))
    names = [(name.replace("_", " "), seconds_text(s)) for name, s in report["seconds"].items()]
    out.print(table(f"Times ({report['repeat']} calls)", ("what", ">time"), names))


def _cells(facts: dict[str, Any]) -> tuple[str, ...]:
    if "value" in facts:
        return ("", "", "", "", "", str(facts["value"]))
    numbers = [f"{facts[key]:.6g}" if key in facts else "" for key in ("min", "max", "mean", "sum")]
    return (facts["dtype"], str(facts["shape"]), *numbers)
