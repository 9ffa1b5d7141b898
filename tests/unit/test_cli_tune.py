"""``aoti-plugins tune``, as far as it needs no GPU."""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import ZipFile

import pytest
from click.testing import CliRunner, Result

from aoti_plugins.cli.app import app
from aoti_plugins.cuda.target import target_by_name
from aoti_plugins.cuda.tuning.records import Entry, Records, kernel_key, product_key

H100 = target_by_name("h100")
KERNEL = Entry(
    kernel_key(H100, "5b1f", {"x": 1024}),
    {"XBLOCK": 256, "num_warps": 4, "num_stages": 1},
    1.5,
    {"torch": "2.13.0", "gpu": "NVIDIA H100"},
)
PRODUCT = Entry(
    product_key(H100, "mm", (1, 4, 64, 256), "bfloat16", "row,column"),
    {"choice": "cublaslt", "name": "mm"},
    4.25,
    {"torch": "2.13.0"},
)


def _tune(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["tune", *map(str, arguments)], prog_name="aoti-plugins")


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    Records([KERNEL]).save(one)
    slower = Entry(KERNEL.key, {"XBLOCK": 1}, 9.0, {"torch": "2.13.0"})
    Records([slower, PRODUCT]).save(two)
    return one, two


def test_merge(files: tuple[Path, Path], tmp_path: Path) -> None:
    merged = tmp_path / "merged.json"
    result = _tune("merge", *files, "-o", merged)
    assert result.exit_code == 0, result.output
    assert "merged.json: 2 entries from 2 files" in result.output
    assert list(Records.load([merged])) == [KERNEL, PRODUCT]
    again = tmp_path / "again.json"
    assert json.loads(_tune("merge", *files[::-1], "-o", again, "--json").output)["entries"] == 2
    assert again.read_bytes() == merged.read_bytes()


def test_show(files: tuple[Path, Path]) -> None:
    result = _tune("show", *files)
    assert result.exit_code == 0
    assert "2 entries" in result.output
    assert "mm 4×64×256 bfloat16 on sm_90a" in result.output
    assert "cublaslt mm" in result.output
    assert "XBLOCK=256 num_stages=1 num_warps=4" in result.output
    shown = json.loads(_tune("show", files[0], "--json").output)
    assert shown == [KERNEL.as_json()]


def test_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text("{")
    result = _tune("show", tmp_path / "r.json")
    assert result.exit_code == 1
    assert "no whole JSON file" in result.output


def test_no_gpu_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with ZipFile(tmp_path / "model.pt2", "w") as archive:
        archive.writestr("model/models/model.json", "{}")
    result = _tune("record", tmp_path / "model.pt2", "-o", tmp_path / "r.json")
    assert result.exit_code == 1
    assert "PyTorch sees no NVIDIA GPU on this machine" in result.output
    assert "`merge` and `show` work everywhere" in result.output
    assert not (tmp_path / "r.json").exists()


def test_only_exported_models(tmp_path: Path) -> None:
    result = _tune("record", tmp_path / "model.pte", "-o", tmp_path / "r.json")
    assert "tune the exported model (.pt2) that it was lowered from" in result.output
    result = _tune("record", tmp_path / "model.pt2", "-o", tmp_path / "r.json")
    assert "there is no file" in result.output


def test_help_says_how() -> None:
    result = _tune("--help")
    assert result.exit_code == 0
    for name in ("record", "merge", "show", "--json"):
        assert name in result.output
