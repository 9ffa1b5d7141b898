"""Export real models, lower them to programs, run the programs, and compare with eager PyTorch.

Each model becomes one ``.pte`` file. It is run twice: by ``aoti_plugins.runtime``, and by
ExecuTorch's own Python runtime, which knows our delegate after ``register()``. The exit code is 1
if a result is off.

    python examples/quickstart.py
    python examples/quickstart.py --models cnn lstm --output-dir /tmp/programs --repeat 200
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

# How far an output may be from eager, relative to the largest value of eager's output.
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}
DEFAULT_MODELS = ("cnn", "transformer", "transformer_bf16", "lstm")


@dataclass
class Result:
    """What the table shows of one model."""

    name: str
    program_nbytes: int
    first_seconds: float
    eager_seconds: float
    ours_seconds: float
    stock_seconds: float
    error: float
    tolerance: float

    @property
    def ok(self) -> bool:
        """Whether both runtimes agree with eager."""
        return self.error <= self.tolerance


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    quiet()
    console = Console(width=None if sys.stdout.isatty() else 120)
    names = ", ".join(options.models)
    console.print(f"Lowering {names} for the CPU. Each takes a C++ compiler some seconds.\n")
    options.output_dir.mkdir(parents=True, exist_ok=True)
    results = [quickstart(name, options, console) for name in options.models]
    console.print(summary(results))
    if all(result.ok for result in results):
        console.print("All outputs agree with eager.", style="green")
        console.print(f"The programs are in {options.output_dir}. Look into one or run one with:")
        program = options.output_dir / f"{options.models[-1]}.pte"
        console.print(f"  aoti-plugins inspect {program}\n  aoti-plugins run {program}")
        return 0
    console.print("Some outputs do not agree with eager.", style="red")
    return 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    import models

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--models", nargs="+", choices=sorted(models.MODELS), default=list(DEFAULT_MODELS)
    )
    parser.add_argument(
        "--output-dir", type=Path, default=Path("build/quickstart"), help="(default: %(default)s)"
    )
    parser.add_argument("--repeat", type=int, default=50, help="timed calls (default: %(default)s)")
    return parser.parse_args(arguments)


def quiet() -> None:
    """Keep notes of torch and executorch about themselves out of the output."""
    warnings.filterwarnings("ignore", module=r"(torch|executorch|copyreg|torchao)(\..*)?")
    warnings.filterwarnings("ignore", message="The tensor attributes .* were assigned")
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)


def quickstart(name: str, options: argparse.Namespace, console: Console) -> Result:
    """Take one model the whole way."""
    import models
    import torch

    module, inputs = models.MODELS[name]()
    path = options.output_dir / f"{name}.pte"
    with console.status(f"{name}: exporting and lowering"):
        lower_seconds, program = timed(lambda: lower(module, inputs))
        program.save(str(path))
    with torch.no_grad():  # and no spinner: its thread would be in the measured times
        expected = module(*inputs)
        ours, first_seconds = load_ours(path, inputs)
        stock = load_stock(path)
        errors = torch.tensor([relative_error(run(inputs)[0], expected) for run in (ours, stock)])
        times = [
            median_seconds(lambda run=run: run(inputs), options.repeat)
            for run in (lambda given: module(*given), ours, stock)
        ]
    parameters = sum(parameter.numel() for parameter in module.parameters())
    result = Result(
        name,
        path.stat().st_size,
        first_seconds,
        *times,
        float(errors.max()),  # not a number stays one
        TOLERANCE[str(expected.dtype).removeprefix("torch.")],
    )
    mark = "[green]✓[/green]" if result.ok else "[red]✗[/red]"
    console.print(
        f"{mark} {name}: {parameters:,} parameters, lowered in {lower_seconds:.1f} s, "
        f"largest error {result.error:.0e} (allowed {result.tolerance:.0e})"
    )
    return result


def lower(module: Any, inputs: tuple[Any, ...]) -> Any:
    """Export a module and lower it; this is all that a program of your own needs."""
    import torch
    from executorch.exir import to_edge_transform_and_lower

    from aoti_plugins import CpuPartitioner

    exported = torch.export.export(module, inputs)
    return to_edge_transform_and_lower(exported, partitioner=[CpuPartitioner()]).to_executorch()


def load_ours(path: Path, inputs: tuple[Any, ...]) -> tuple[Callable[..., Any], float]:
    """Load a program with our runtime; also gives the time from opening it to the first result."""
    from aoti_plugins.runtime import Program, register

    register()  # loads the shared libraries, once per process: not part of the time
    seconds, program = timed(lambda: (program := Program(path), program(*inputs))[0])
    return lambda given: program(*given), seconds


def load_stock(path: Path) -> Callable[..., Any]:
    """Load a program with ExecuTorch's own runtime, which ``register()`` taught our delegate."""
    from executorch.runtime import Runtime

    from aoti_plugins.runtime import register

    register()
    method = Runtime.get().load_program(path).load_method("forward")
    return lambda given: method.execute(given)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def median_seconds(work: Callable[[], Any], repeat: int) -> float:
    work()
    return statistics.median(timed(work)[0] for _ in range(repeat))


def relative_error(found: Any, expected: Any) -> float:
    """Largest difference, relative to the largest expected value."""
    difference = (found.double() - expected.double()).abs().max()
    return float(difference / expected.double().abs().max())


def summary(results: list[Result]) -> Table:
    table = Table(title="Median time of a call", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("model", "program", "load + first", "eager", "ours", "stock", "error"):
        table.add_column(column, justify="left" if column == "model" else "right", no_wrap=True)
    for result in results:
        table.add_row(
            result.name,
            f"{result.program_nbytes / 1024:,.0f} KiB",
            f"{result.first_seconds * 1e3:.1f} ms",
            *(
                f"{seconds * 1e6:,.0f} µs"
                for seconds in (result.eager_seconds, result.ours_seconds, result.stock_seconds)
            ),
            f"{result.error:.0e}",
            style=None if result.ok else "red",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
