"""Random modules that are lowered on one machine and run on another, as with a build server.

    python tests/kinds/random_modules_elsewhere.py lower FOLDER --target h100 [--parts 0:25]
    python tests/kinds/random_modules_elsewhere.py run FOLDER

What is expected is computed where the modules are lowered, so the two machines may have different
versions of PyTorch, which initialise weights differently. ``run`` ends with status 1 if anything
was refused or differs.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from executorch.exir import to_edge_transform_and_lower
from random_module_packs import CALLS, Expected, copied, expected_results, pack, wrong_outputs
from random_modules import RandomModule, random_module
from torch.utils import _pytree as pytree

from aoti_plugins import CudaPartitioner
from aoti_plugins.runtime import Program

TOGETHER = 20


def lower(folder: Path, target: str, parts: range) -> None:
    """Write a program with inputs and expected results for each part, or why there is none.

    Args:
        folder: where to write; parts that are there are left as they are.
        target: the GPU, as in ``CudaPartitioner(target=...)``.
        parts: numbers of parts, of 20 modules each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part in parts:
        if list(folder.glob(f"{part:03}-*.pt")):
            continue
        start = time.monotonic()
        seeds = range(part * TOGETHER, (part + 1) * TOGETHER)
        for index, one in enumerate(_lowered([random_module(seed) for seed in seeds], target)):
            torch.save(one, folder / f"{part:03}-{index}.pt")
        print(f"part {part}: {time.monotonic() - start:.0f} s", flush=True)


def _lowered(programs: Sequence[RandomModule], target: str) -> Iterator[dict[str, Any]]:
    model, inputs = pack(programs)
    try:
        # What is right is float64's. Autograd lets nobody write to one of several results.
        with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            edge = to_edge_transform_and_lower(
                torch.export.export(model, inputs), partitioner=[CudaPartitioner(target=target)]
            )
        lowered = bytes(edge.to_executorch().buffer)
    except Exception as error:
        if len(programs) == 1:
            yield {"error": f"{type(error).__name__}: {error}\n{programs[0]}"}
            return
        middle = len(programs) // 2
        yield from _lowered(programs[:middle], target)
        yield from _lowered(programs[middle:], target)
        return
    expected = [
        [[(one.value, one.allowed) for one in call] for call in expected_results(program)]
        for program in programs
    ]
    yield {
        "program": torch.frombuffer(bytearray(lowered), dtype=torch.uint8),
        "inputs": pytree.tree_leaves(inputs),
        "expected": expected,
        "sources": [str(program) for program in programs],
    }


def run(folder: Path) -> int:
    """Run what is in a folder; prints what is wrong, and how many modules are right."""
    right = 0
    wrong: list[str] = []
    for path in sorted(folder.glob("*.pt")):
        try:
            found = _differences(torch.load(path))
        except Exception as error:
            found = [f"{type(error).__name__}: {error}"]
        right += sum(one is None for one in found)
        wrong += [f"{path.name}: {one}" for one in found if one is not None]
    print("\n\n".join(wrong))
    print(f"{right} modules are right, {len(wrong)} are not", flush=True)
    return 1 if wrong or not right else 0


def _differences(stored: dict[str, Any]) -> list[str | None]:
    if "error" in stored:
        return [stored["error"]]
    with Program(stored["program"].numpy().tobytes()) as program:
        calls = [[copied(value) for value in program(*stored["inputs"])] for _ in range(CALLS)]
    expected = [
        [[Expected(value, allowed) for value, allowed in call] for call in one]
        for one in stored["expected"]
    ]
    return [
        "\n".join([*lines, source]) if lines else None
        for lines, source in zip(wrong_outputs(expected, calls), stored["sources"], strict=True)
    ]


def _parts(text: str) -> range:
    first, _, end = text.partition(":")
    return range(int(first), int(end))


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    lowering = commands.add_parser("lower", help="lower modules for a GPU that need not be here")
    lowering.add_argument("folder", type=Path)
    lowering.add_argument("--target", required=True, help="the GPU, as h100")
    lowering.add_argument("--parts", type=_parts, default=range(50), help="default: 0:50")
    running = commands.add_parser("run", help="run them on the GPU that is here")
    running.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.command == "run":
        return run(arguments.folder)
    lower(arguments.folder, arguments.target, arguments.parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
