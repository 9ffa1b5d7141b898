"""The command line lowers for CUDA, inspects what came out, and says what a run lacks here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from aoti_plugins.cli.app import app


def test_lower_inspect_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTI_PLUGINS_CUDA_DRIVER", str(tmp_path / "no_driver.so"))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
    torch.export.save(torch.export.export(model, (torch.randn(2, 8),)), tmp_path / "model.pt2")

    def invoke(*arguments: str) -> str:
        result = CliRunner().invoke(app, arguments, prog_name="aoti-plugins")
        assert result.exit_code == 0, result.output
        return result.stdout

    program = str(tmp_path / "model.pte")
    options = ("--device", "cuda", "--option", "targets=a100,h100")
    invoke("lower", str(tmp_path / "model.pt2"), "-o", program, *options)
    report = json.loads(invoke("inspect", program, "--json"))
    (delegate,) = report["methods"][0]["delegates"]
    assert delegate["id"] == "AotiCudaBackend"
    targets = delegate["payload"]["targets"]
    assert [target["name"] for target in targets] == ["a100", "h100"]
    assert [target["features"][0] for target in targets] == ["sm_80", "sm_90a"]
    failed = CliRunner().invoke(app, ["run", program], prog_name="aoti-plugins")
    assert failed.exit_code == 1
    assert "no_driver.so" in failed.output
