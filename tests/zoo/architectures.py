"""Write ``docs/architectures.md`` from the results of ``run.py`` on GPUs.

python tests/zoo/architectures.py
python tests/zoo/architectures.py --merge results.json --commit 1a2b3c4 --note "lowered and run"

``--merge`` first adds what ``run.py cuda --output results.json`` wrote as one more run; where runs
have a model in common, the page shows the last one.
"""

from __future__ import annotations

import argparse
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
_VERSIONS = ("torch", "triton", "executorch", "timm", "torchvision", "transformers")

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
  is. `mixtral` computes its experts as one product (`batched_mm`); all other models with experts
  use the code that transformers chooses, and are called with a whole sequence.
- `dbrx` and `longcat_flash` are not here: with transformers 5.23 they ask in Python which experts
  were chosen, which torch.export 2.14 does not take (`for expert_idx in expert_hit`). Nor are
  `switch_transformers` and `nllb_moe`, which convert a module while they run
  (`self.classifier = self.classifier.to(self.dtype)`: "Couldn't swap Linear.weight").
- Of the fourth run, `aria_text` was not exported by torch 2.11 (2.14 does, and on the CPU the
  program is whole and right). `deepseek_v2` and `llama4_text` left views of complex numbers to
  ExecuTorch; since then these are delegated, and the programs for the CPU are whole and right.
  `jetmoe` splits by sizes that the data decides (`inputs.split(expert_size)`); the split and each
  `index_put` of what comes of it stay outside. g++ failed for `gpt_bigcode`, while fifteen other
  models were lowered; what it said was not kept. The same model is lowered for an H100 by torch
  2.11 and 2.14 on a machine without a GPU.
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


def merge(found: Path, commit: str, note: str) -> None:
    """Add a run to the stored ones.

    Args:
        found: what ``run.py`` wrote.
        commit: what was checked out there.
        note: how it was run, for the page.

    Raises:
        ValueError: the run was not on CUDA.
    """
    run = json.loads(found.read_text())
    if run["device"] != "cuda":
        raise ValueError(f"{str(found)!r} has results for {run['device']!r}, not for 'cuda'")
    stored = json.loads(RESULTS.read_text())
    versions = {**run["environment"]["versions"], **run.get("packages", {})}
    environment = {**run["environment"], "versions": versions}
    stored["runs"].append(
        {"environment": environment, "commit": commit, "note": note, "models": run["models"]}
    )
    RESULTS.write_text(json.dumps(stored, indent=1) + "\n")


def _models(run: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Those that the run's packages have."""
    return [(name, one) for name, one in run["models"].items() if one["result"] != "MISSING"]


def _about(run: dict[str, Any]) -> str:
    environment = run["environment"]
    versions = environment["versions"]
    gpus = " and ".join(sorted(set(environment["hardware"]["gpus"])))
    known = [name for name in _VERSIONS if name in versions]
    text = (
        f"{len(_models(run))} models, {run['note']}. {gpus}, {environment['date']}, commit "
        f"{run['commit']}, {', '.join(f'{name} {versions[name]}' for name in known)}."
    )
    missing = sorted(one["cause"] for one in run["models"].values() if one["result"] == "MISSING")
    return f"{text} Not there: {'; '.join(missing)}." if missing else text


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--merge", type=Path, metavar="RESULTS", help="JSON that run.py wrote")
    parser.add_argument("--commit", help="what was checked out for it")
    parser.add_argument("--note", help="how it was run")
    chosen = parser.parse_args()
    if chosen.merge:
        if not chosen.commit or not chosen.note:
            parser.error("--merge needs --commit and --note")
        merge(chosen.merge, chosen.commit, chosen.note)
    DOCUMENT.write_text(document())
    print(DOCUMENT)


if __name__ == "__main__":
    main()
