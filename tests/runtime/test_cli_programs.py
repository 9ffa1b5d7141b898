"""The command line on real programs: lower, inspect, run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy
import pytest
import torch
from click.testing import CliRunner, Result
from support import lower

from aoti_plugins.cli.app import app

Lowered = Callable[[str], Path]

pytestmark = pytest.mark.usefixtures("restored_logging")


def invoke(*arguments: object) -> Result:
    result = CliRunner().invoke(app, list(map(str, arguments)), prog_name="aoti-plugins")
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_inspect(lowered_programs: Lowered) -> None:
    path = lowered_programs("mlp")
    report = json.loads(invoke("inspect", path, "--json").stdout)
    assert report["nbytes"] == path.stat().st_size
    (method,) = report["methods"]
    assert method["name"] == "forward"
    assert method["inputs"] == ["float32[4, 64]"]
    assert method["operators"] == []
    (delegate,) = method["delegates"]
    assert delegate["id"] == "AotiCpuBackend"
    payload = delegate["payload"]
    assert {"torch", "executorch", "aoti-plugins"} <= set(payload["built_with"])
    assert sum(len(one["sizes"]) for one in payload["constants"]) == 6
    (target,) = payload["targets"]
    assert "aoti_torch_empty_strided" in target["symbols"]
    blobs = {blob["key"]: blob for blob in report["named_data"]}
    code = blobs[target["artifact_key"]]
    assert code["kind"] == "shared object"
    assert code["nbytes"] == target["artifact_nbytes"]
    assert code["used_by"] == ["forward[0]"]
    assert not any("torch" in name.replace("executorch", "") for name in code["needed"])
    for storage in payload["storages"]:
        assert blobs[storage["key"]]["nbytes"] == storage["nbytes"]


def test_inspect_tables(lowered_programs: Lowered) -> None:
    text = invoke("inspect", lowered_programs("mlp"), "--constants").stdout
    for part in (
        "Methods",
        "Delegate forward[0]: AotiCpuBackend",
        "Constants of forward[0]",
        "Blobs",
    ):
        assert part in text
    assert "float32[4, 64]" in text


def test_inspect_shows_names_and_bounds(tmp_path: Path) -> None:
    path = tmp_path / "linear.pte"
    rows = torch.export.Dim("rows", max=8)
    shapes = {"input": {0: rows}}
    program = lower(torch.nn.Linear(4, 3), (torch.ones(2, 4),), dynamic_shapes=shapes)
    path.write_bytes(program.buffer)
    report = json.loads(invoke("inspect", path, "--json").stdout)
    (method,) = report["methods"]
    assert method["inputs"] == ["float32[8, 4] (dynamic)"]
    interface = method["interface"]
    assert interface["inputs_text"] == ["input: float32[0..8, 4]"]
    assert interface["inputs"][0]["bounds"] == [[0, 8], [4, 4]]
    assert method["delegates"][0]["compile_specs"] == {}
    text = invoke("inspect", path).stdout
    assert "input: float32[0..8, 4]" in text
    assert "float32[0..8, 3]" in text
    at = program.buffer.index(b'{"version":1,"parameters"')
    path.write_bytes(program.buffer[:at] + b"[" + program.buffer[at + 1 :])
    report = json.loads(invoke("inspect", path, "--json").stdout)
    assert "damaged" in report["methods"][0]["interface"]["error"]
    assert "float32[8, 4] (dynamic)" in invoke("inspect", path).stdout


def test_inspect_shows_a_damaged_payload(lowered_programs: Lowered, tmp_path: Path) -> None:
    data = bytearray(lowered_programs("mlp").read_bytes())
    at = data.index(b"AOTIPLUG") + 40
    data[at] ^= 0xFF
    path = tmp_path / "damaged.pte"
    path.write_bytes(data)
    report = json.loads(invoke("inspect", path, "--json").stdout)
    (delegate,) = report["methods"][0]["delegates"]
    assert "body crc32" in delegate["payload_error"]
    assert "body crc32" in invoke("inspect", path).stdout


def test_run_random(lowered_programs: Lowered) -> None:
    path = lowered_programs("mlp")
    first, second = (
        json.loads(invoke("run", path, "--json", "--repeat", 3, "--random-seed", seed).stdout)
        for seed in (0, 1)
    )
    assert first["outputs"][0]["shape"] == [4, 64]
    assert first["outputs"][0]["sum"] != second["outputs"][0]["sum"]
    wanted = {"load_program", "load_method", "first_call", "median_call"}
    assert wanted <= set(first["seconds"])
    assert all(seconds > 0 for seconds in first["seconds"].values())


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".pt"])
def test_run_on_a_file(
    lowered_programs: Lowered,
    example_models: dict[str, Callable[[], Any]],
    tmp_path: Path,
    suffix: str,
) -> None:
    model, (x,) = example_models["mlp"]()
    source, result = tmp_path / f"x{suffix}", tmp_path / "y.npz"
    if suffix == ".pt":
        torch.save((x,), source)
    else:
        (numpy.save if suffix == ".npy" else numpy.savez)(source, x.numpy())
    path = lowered_programs("mlp")
    found = invoke("run", path, "--input", source, "--repeat", 1, "--save-outputs", result)
    assert found.exit_code == 0, found.stderr
    expected = model(x).detach().numpy()
    with numpy.load(result) as outputs:
        numpy.testing.assert_allclose(outputs["output_0"], expected, rtol=1e-4, atol=1e-5)


def test_run_on_an_input_by_name(
    lowered_programs: Lowered, example_models: dict[str, Callable[[], Any]], tmp_path: Path
) -> None:
    model, (x,) = example_models["mlp"]()
    source, result = tmp_path / "x.npy", tmp_path / "y.npz"
    numpy.save(source, x.numpy())
    given = f"input={source}"
    path = lowered_programs("mlp")
    found = invoke("run", path, "--input", given, "--repeat", 1, "--save-outputs", result)
    assert found.exit_code == 0, found.stderr
    with numpy.load(result) as outputs:
        expected = model(x).detach().numpy()
        numpy.testing.assert_allclose(outputs["output_0"], expected, rtol=1e-4, atol=1e-5)
    for other in ("none", str(source)):  # once more, by name or by position
        twice = invoke("run", path, "--input", given, "--input", given.replace(str(source), other))
        assert twice.exit_code == 1
        assert "one value for 'input', please; it is given twice" in twice.stderr
    both = invoke("run", path, "--input", source, "--input", given)
    assert both.exit_code == 1
    assert "method 'forward'" in both.stderr


def test_run_saves_bfloat16(lowered_programs: Lowered, tmp_path: Path) -> None:
    path = lowered_programs("transformer_bf16")
    refused = invoke("run", path, "--repeat", 1, "--save-outputs", tmp_path / "y.npz")
    assert refused.exit_code == 1
    assert ".npz cannot hold torch.bfloat16; choose a name that ends in .pt" in refused.stderr
    assert invoke("run", path, "--repeat", 1, "--save-outputs", tmp_path / "y.pt").exit_code == 0
    (output,) = torch.load(tmp_path / "y.pt")
    assert output.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x.txt", "--input x.txt: expected a number, true, false, none, or a file that ends in"),
        ("none.npy", "--input none.npy: there is no such file"),
        ("input=none.npy", "--input none.npy: there is no such file"),
        ("y=1", "method 'forward'"),
        ("1.5", "input 0 (input) of method 'forward': found a float, expected a float32[4, 64]"),
    ],
)
def test_run_refuses_inputs(lowered_programs: Lowered, source: str, message: str) -> None:
    result = invoke("run", lowered_programs("mlp"), "--input", source)
    assert result.exit_code == 1
    assert message in result.stderr


def test_run_on_an_unreadable_file(lowered_programs: Lowered, tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_text("no array")
    result = invoke("run", lowered_programs("mlp"), "--input", tmp_path / "x.npy")
    assert result.exit_code == 1
    assert "x.npy: cannot be read: " in result.stderr


def test_lower_then_run(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).eval()
    x = torch.randn(2, 8)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    output = tmp_path / "out.pte"
    lowered = invoke("lower", tmp_path / "model.pt2", "-o", output, "--json")
    assert lowered.exit_code == 0, lowered.stderr
    report = json.loads(lowered.stdout)
    assert report["file"] == str(output)
    assert report["methods"][0]["delegates"][0]["id"] == "AotiCpuBackend"
    names = [one["stage"] for one in report["stages"]]
    assert names[0] == "import torch and executorch"
    assert any(name.startswith("cpu forward: ") for name in names), names
    assert not any(one["failed"] for one in report["stages"])
    assert "✓ write out.pte" in lowered.stderr
    torch.save([x], tmp_path / "x.pt")
    ran = invoke("run", output, "-i", tmp_path / "x.pt", "--save-outputs", tmp_path / "y.pt")
    assert ran.exit_code == 0, ran.stderr
    torch.testing.assert_close(torch.load(tmp_path / "y.pt")[0], model(x).detach())


def test_lower_refuses_options(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "model.pt2", "w") as archive:  # an exported model at first sight
        archive.writestr("model/models/model.json", "{}")
    result = invoke("lower", tmp_path / "model.pt2", "--option", "speed=9")
    assert result.exit_code == 1
    assert "--option speed=9: expected name=value with a name of: " in result.stderr
    unknown = invoke("lower", tmp_path / "model.pt2", "--device", "tpu")
    assert unknown.exit_code == 1
    assert "cannot lower for device 'tpu'" in unknown.stderr
