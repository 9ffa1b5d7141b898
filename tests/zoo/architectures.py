"""Write ``docs/architectures.md`` from the results of ``run.py`` on GPUs.

python tests/zoo/architectures.py
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import catalogue

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "models_cuda.json"
DOCUMENT = ROOT / "docs" / "architectures.md"

_INTRODUCTION = """\
# Architectures on CUDA

Models of timm, torchvision and transformers with random weights, lowered by `CudaPartitioner` as
they are, run on a GPU, and compared with eager PyTorch on the CPU in float32. *Right* means:
delegated whole, the relative error in the Euclidean norm at most 1e-3 (the next column), integers
equal. `tests/zoo/run.py` makes the models, lowers and runs them; `tests/zoo/architectures.py`
makes this page of `benchmarks/results/models_cuda.json`.
"""

_REMARKS = """\
## Remarks

- In the first run cuDNN was allowed to round what convolutions read to TF32, hence its larger
  errors. Six of its models were farther from float32 than 1e-3 for that reason, and were run again
  without; models whose fresh weights make all results zero are not counted.
- Detectors of torchvision are there as `.network`: all that has weights, from the image to what
  the heads give. The whole detector is not taken by torch.export 2.11: what chooses boxes asks in
  Python how many there are (`torchvision/ops/boxes.py`, `if boxes.numel() == 0`;
  `torchvision/ops/poolers.py`). Without that, `torchvision::nms` and `torchvision::roi_align`
  remain, for which neither PyTorch has decompositions nor ExecuTorch kernels.
- Decoders of transformers have a static cache and are called four times, one token after the
  other; `opt` is called with a whole sequence, for transformers asks in Python how full its cache
  is. `mixtral` computes its experts as one product (`batched_mm`).
"""


def document() -> str:
    """The page."""
    runs = json.loads(RESULTS.read_text())["runs"]
    rows = {name: (one, place) for place, run in enumerate(runs, 1) for name, one in _models(run)}
    counts = Counter((name.partition(".")[0], one["result"]) for name, (one, _) in rows.items())
    lines = [_INTRODUCTION, "| package | right | otherwise | not run on a GPU |"]
    lines += ["| --- | --- | --- | --- |"]
    for package in ("timm", "torchvision", "transformers"):
        right = counts[package, "RIGHT"]
        run = sum(count for (of, _), count in counts.items() if of == package)
        known = sum(name.startswith(f"{package}.") for name in catalogue.ENTRIES)
        lines.append(f"| {package} | {right} | {run - right} | {known - run} |")
    lines += ["", "Runs:", ""]
    lines += [f"{place}. {_about(run)}" for place, run in enumerate(runs, 1)]
    lines += ["", _REMARKS]
    missing = sorted(set(catalogue.ENTRIES) - set(rows))
    lines += ["## Models", "", f"Not run on a GPU: {', '.join(f'`{n}`' for n in missing)}.", ""]
    lines += ["| model | result | relative error | run |", "| --- | --- | --- | --- |"]
    for name, (one, place) in sorted(rows.items()):
        result = one["result"].lower().replace("_", " ")
        lines.append(f"| `{name}` | {result} | {one.get('relative_error', '')} | {place} |")
    return "\n".join(lines) + "\n"


def _models(run: dict[str, Any]) -> Any:
    return run["models"].items()


def _about(run: dict[str, Any]) -> str:
    environment = run["environment"]
    versions = environment["versions"]
    gpus = " and ".join(sorted(set(environment["hardware"]["gpus"])))
    return (
        f"{len(run['models'])} models, {run['note']}. {gpus}, {environment['date']}, commit "
        f"{run['commit']}, torch {versions['torch']}, triton {versions['triton']}, executorch "
        f"{versions['executorch']}."
    )


if __name__ == "__main__":
    DOCUMENT.write_text(document())
    print(DOCUMENT)
