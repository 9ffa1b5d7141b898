"""Time the loading of programs, which includes all checks of the file: no method is loaded.

    python benchmarks/program_load.py [PROGRAM...]

Without arguments it makes two, of one linear layer and of four hundred, for kernels of ExecuTorch.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from aoti_plugins.runtime import Program

CALLS = 1000


def make(path: Path, layers: int) -> None:
    """Write a program of linear layers that no delegate takes."""
    import torch
    from executorch.exir import to_edge_transform_and_lower

    model = torch.nn.Sequential(
        *(part for _ in range(layers) for part in (torch.nn.Linear(16, 16), torch.nn.ReLU()))
    )
    exported = torch.export.export(model.eval(), (torch.zeros(1, 16),))
    path.write_bytes(to_edge_transform_and_lower(exported).to_executorch().buffer)


def seconds(path: Path) -> float:
    """Return how long one load takes."""
    start = time.perf_counter()
    program = Program(path)
    taken = time.perf_counter() - start
    program.close()
    return taken


def main() -> None:
    """Print the median of each program."""
    paths = [Path(argument) for argument in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as folder:
        for layers in () if paths else (1, 400):
            paths.append(Path(folder) / f"linear_{layers}.pte")
            make(paths[-1], layers)
        for path in paths:
            taken = statistics.median(seconds(path) for _ in range(CALLS))
            print(f"{path.name}: {path.stat().st_size} bytes, {taken * 1e6:.1f} us")


if __name__ == "__main__":
    main()
