"""The runner of real architectures tells right, partly delegated, different and failed apart."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The runner, its catalogue with a few tiny models."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    catalogue = importlib.import_module("catalogue")
    runner = importlib.import_module("run")

    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x if x.sum() > 0 else -x

    class Edges(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.eigvalsh(x @ x.mT).exp()

    def case(model: nn.Module, *sizes: int) -> Any:
        return lambda: catalogue.Case(model.eval(), ((torch.randn(sizes),), (torch.randn(sizes),)))

    asleep = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.Linear(8, 4))
    nn.init.zeros_(asleep[3].weight)
    entries = {
        "tiny.asleep": case(asleep, 2, 3, 3, 3),
        "tiny.linear": case(nn.Sequential(nn.Linear(4, 3), nn.GELU()), 2, 4),
        "tiny.branches": case(Branches(), 3),
        "tiny.edges": case(Edges(), 3, 3),
        "tiny.nothing": lambda: catalogue.Case(nn.Identity(), ((torch.full((2,), torch.nan),),)),
    }
    monkeypatch.setattr(catalogue, "ENTRIES", entries)
    return runner


def test_right(zoo: Any, tmp_path: Path) -> None:
    found = zoo.examine("tiny.linear", "cpu", plan=False, keep=tmp_path)
    assert found["result"] == zoo.RIGHT, found
    assert found["outside"] == []
    assert found["relative_error"] < 1e-5
    assert (tmp_path / "tiny.linear.pte").stat().st_size > 1000


def test_different(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo, "_lower", lambda *_: (b"", []))
    monkeypatch.setattr(zoo, "_run", lambda *_: [torch.zeros(2, 3), torch.zeros(2, 3)])
    found = zoo.examine("tiny.linear", "cpu", plan=False, keep=None)
    assert found["result"] == zoo.DIFFERENT
    assert found["relative_error"] > 0.5


def test_plan_compiles_nothing(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from aoti_plugins.lowering import pipeline

    monkeypatch.delattr(pipeline, "lower")
    assert zoo.examine("tiny.linear", "cpu", plan=True, keep=None)["result"] == zoo.PLANNED
    partly = zoo.examine("tiny.edges", "cpu", plan=True, keep=None)
    assert partly["result"] == zoo.PARTLY
    assert any("eigh" in op for op in partly["outside"]), partly


def test_failed_steps_are_named(zoo: Any) -> None:
    export = zoo.examine("tiny.branches", "cpu", plan=True, keep=None)
    assert export["result"] == "EXPORT_FAILED"
    assert export["cause"]
    eager = zoo.examine("tiny.nothing", "cpu", plan=True, keep=None)
    assert eager["result"] == "EAGER_FAILED"
    assert "finite" in eager["cause"]


def test_an_architecture_that_the_package_lacks_is_missing(
    zoo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    entries = {"transformers.new": lambda: zoo.catalogue._whole_text("NeverHeardOf")}
    monkeypatch.setattr(zoo.catalogue, "ENTRIES", entries)
    found = zoo.examine("transformers.new", "cpu", plan=True, keep=None)
    cause = f"NeverHeardOfConfig is not in transformers {transformers.__version__}"
    assert found == {"result": zoo.MISSING, "cause": cause}


def test_a_whole_name_stands_for_one_model(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zoo.catalogue, "ENTRIES", dict.fromkeys(["a.gemma", "a.gemma2", "b.phi"]))
    assert zoo.chosen_names(["a.gemma"]) == ["a.gemma"]
    assert zoo.chosen_names(["a.gemm"]) == ["a.gemma", "a.gemma2"]
    assert zoo.chosen_names(["a.gemma", "phi"]) == zoo.chosen_names(["gemma", "b.ph"])
    assert zoo.chosen_names(["gemma", "phi"]) == ["a.gemma", "b.phi"]
    assert zoo.chosen_names([]) == ["a.gemma", "a.gemma2", "b.phi"]


def test_a_run_that_is_ended_leaves_what_it_has_and_goes_on_from_there(
    zoo: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    output = tmp_path / "results.json"
    monkeypatch.setattr(sys, "argv", ["run.py", "cpu", "--output", str(output), "-n", "1"])
    asked = []

    def one(name: str, *_: Any) -> dict[str, Any]:
        asked.append(name)
        if name == "tiny.branches" and asked.count(name) == 1:
            raise KeyboardInterrupt
        return {"result": zoo.RIGHT}

    monkeypatch.setattr(zoo, "in_own_process", one)
    with pytest.raises(KeyboardInterrupt):
        zoo.main()
    assert {"tiny.asleep", "tiny.linear"} <= json.loads(output.read_text())["models"].keys()
    assert zoo.main() == 0
    assert sorted(asked) == sorted([*zoo.catalogue.ENTRIES, "tiny.branches"])
    assert json.loads(output.read_text())["models"].keys() == zoo.catalogue.ENTRIES.keys()


def test_differences(zoo: Any) -> None:
    one = torch.tensor([1.0, 2.0, torch.inf])
    assert zoo._difference([one], [one]) == 0
    assert zoo._difference([one], [torch.tensor([1.0, 2.0, -torch.inf])]) == float("inf")
    assert zoo._difference([one], [torch.tensor([1.0, 2.0, 3.0])]) == float("inf")
    assert zoo._difference([torch.zeros(2)], [torch.zeros(3)]) == float("inf")
    assert zoo._difference([torch.tensor([1])], [torch.tensor([2])]) == float("inf")
    assert zoo._difference([torch.tensor([2.0])], [torch.tensor([1.0])]) == 1
    assert zoo._difference([torch.empty(0)], [torch.empty(0)]) == 0


def test_what_a_fresh_model_gives_depends_on_its_inputs(zoo: Any) -> None:
    case = zoo.catalogue.make("tiny.asleep")
    one, other = (case.model(*call) for call in case.calls)
    assert (one - other).norm() > 0.1 * one.norm()
    assert not case.model[1]._forward_pre_hooks
    assert not case.model[1].training


def test_causes_keep_the_line_that_export_does_not_take(zoo: Any) -> None:
    error = RuntimeError(
        f"Could not guard on {'u0 + ' * 200} Caused by: (boxes.py:80 in nms)\nMore"
    )
    cause = zoo._cause(error)
    assert cause.startswith("RuntimeError: Could not guard on u0")
    assert "... Caused by: (boxes.py:80 in nms)" in cause
    assert len(cause) < 450
    assert zoo._cause(KeyError("name")) == "KeyError: 'name'"
    failed = zoo._cause(RuntimeError(f"g++ failed: {'-Iinclude ' * 100} error: 'x' is no type"))
    assert failed.startswith("RuntimeError: g++ failed: -Iinclude")
    assert failed.endswith("error: 'x' is no type")
    assert len(failed) < 650


def test_starts_where_its_folder_is_not_on_the_path(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(__file__).with_name("run.py")), "--help"]
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "--plan" in done.stdout


def test_a_folder_without_kept_programs_is_an_error(
    zoo: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["run.py", "cpu", "tiny.", "--kept", str(tmp_path)])
    with pytest.raises(SystemExit):
        zoo.main()
    assert "has no program of these names" in capsys.readouterr().err
