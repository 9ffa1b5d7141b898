"""``docs/adding-a-device.md``: the package that it shows, built, installed and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock
from support import needs_executorchs_extension

GUIDE = Path(__file__).parents[2] / "docs" / "adding-a-device.md"
_FILE = re.compile(r"^\*\*`([^`]+)`\*\*\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INSTALL = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation")

MODEL = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(6, 4)

    def forward(self, x):
        return torch.relu(self.linear(x)) @ torch.ones(4, 2)

model, inputs = Model().eval(), (torch.linspace(-1, 1, 18).reshape(3, 6),)
exported = torch.export.export(model, inputs)
"""
LOWER = f"""
import json, sys
{MODEL}
from acme_device.partitioner import AcmePartitioner
from executorch.exir import to_edge_transform_and_lower

edge = to_edge_transform_and_lower(exported, partitioner=[AcmePartitioner()])
outside = [str(n.target) for n in edge.exported_program().graph.nodes if "aten" in str(n.target)]
with open(sys.argv[1], "wb") as file:
    edge.to_executorch().write_to_file(file)
print(json.dumps([outside, model(*inputs).tolist()]))
"""
RUN = """
import json, sys
import numpy
from aoti_plugins.runtime import Program, backends

x = numpy.linspace(-1, 1, 18, dtype=numpy.float32).reshape(3, 6)
(y,) = Program(sys.argv[1])(x)
print(json.dumps([y.tolist(), "AcmeBackend" in backends(), "torch" in sys.modules]))
"""
STATE = """
import json, sys
import numpy, torch
from acme_device.partitioner import AcmePartitioner
from aoti_plugins.runtime import Program
from executorch.exir import to_edge_transform_and_lower

class Total(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total += x
        return self.total * 1

one = torch.ones(3)
methods = {name: torch.export.export(Total(), (one,)) for name in ("first", "second")}
edge = to_edge_transform_and_lower(methods, partitioner=[AcmePartitioner()])
program = Program(edge.to_executorch().buffer)
loaded = [program.method(name) for name in methods]  # a buffer lives as long as one of them
print(json.dumps([method(one.numpy())[0].tolist() for method in loaded]))
"""
STOCK = """
import json, sys
import torch
import aoti_plugins.runtime
aoti_plugins.runtime.register("acme")
from executorch.runtime import Runtime

method = Runtime.get().load_program(sys.argv[1]).load_method("forward")
(y,) = method.execute([torch.linspace(-1, 1, 18).reshape(3, 6)])
print(json.dumps(y.tolist()))
"""


class Acme:
    """The guide's package, in a folder that only these tests see."""

    def __init__(self, site: Path) -> None:
        self.site = site

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        known = {k: v for k, v in os.environ.items() if k != "AOTI_PLUGINS_BLOCK"}
        known |= {"PYTHONPATH": str(self.site)} | environment
        return subprocess.run(
            [sys.executable, *command], env=known, capture_output=True, text=True, check=False
        )

    def output(self, *command: str) -> str:
        done = self.run(*command)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def acme(shared_dir: Path) -> Acme:
    site = shared_dir / "acme_site"
    with FileLock(f"{site}.lock"):
        if not site.exists():
            sources = shared_dir / "acme_sources"
            for name, text in _FILE.findall(GUIDE.read_text()):
                (sources / name).parent.mkdir(parents=True, exist_ok=True)
                (sources / name).write_text(text)
            # PyPI's CMake and Ninja lie beside the interpreter.
            path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
            command = [sys.executable, "-m", "pip", "install", *_INSTALL]
            done = subprocess.run(
                [*command, "--target", str(site), str(sources)],
                env=os.environ | {"PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return Acme(site)


@pytest.fixture(scope="module")
def lowered(acme: Acme, shared_dir: Path) -> tuple[Path, list[str], list[list[float]]]:
    """A program of the device, what stayed outside of it, and what eager PyTorch gives."""
    path, said = shared_dir / "acme.pte", shared_dir / "acme.json"
    with FileLock(f"{path}.lock"):
        if not said.exists():
            said.write_text(acme.output("-c", LOWER, str(path)))
    outside, expected = json.loads(said.read_text())
    return path, outside, expected


def test_the_guide_has_the_files_of_a_package() -> None:
    names = {name for name, _ in _FILE.findall(GUIDE.read_text())}
    assert {"pyproject.toml", "CMakeLists.txt", "delegate.cpp", "acme_device/device.py"} <= names
    assert len(names) == len(_FILE.findall(GUIDE.read_text())) == GUIDE.read_text().count("\n**`")


def test_a_model_is_lowered_as_a_whole(lowered: tuple[Path, list[str], list[list[float]]]) -> None:
    path, outside, _ = lowered
    assert outside == []
    assert b"AcmeBackend" in path.read_bytes()
    assert b"AotiCpuBackend" not in path.read_bytes()


def test_it_runs_without_torch(
    acme: Acme, lowered: tuple[Path, list[str], list[list[float]]]
) -> None:
    path, _, expected = lowered
    found, is_registered, has_torch = json.loads(acme.output("-c", RUN, str(path)))
    assert found == [pytest.approx(row, rel=1e-5) for row in expected]
    assert (is_registered, has_torch) == (True, False)


@needs_executorchs_extension
def test_it_runs_under_executorchs_own_runtime(
    acme: Acme, lowered: tuple[Path, list[str], list[list[float]]]
) -> None:
    path, _, expected = lowered
    found = json.loads(acme.output("-c", STOCK, str(path)))
    assert found == [pytest.approx(row, rel=1e-5) for row in expected]


def test_its_methods_share_buffers(acme: Acme) -> None:
    assert json.loads(acme.output("-c", STATE)) == [[1, 1, 1], [2, 2, 2]]


def test_the_command_line_knows_it(acme: Acme, tmp_path: Path) -> None:
    model, program = tmp_path / "model.pt2", tmp_path / "model.pte"
    acme.run("-c", f"{MODEL}\ntorch.export.save(exported, {str(model)!r})").check_returncode()
    arguments = ["lower", str(model), "-o", str(program), "--device", "acme", "--json"]
    done = acme.run("-m", "aoti_plugins", *arguments)
    assert done.returncode == 0, done.stderr
    (delegate,) = json.loads(done.stdout)["methods"][0]["delegates"]
    assert (delegate["id"], delegate["payload"]["device"]) == ("AcmeBackend", "cpu")
    assert program.exists()


def test_plugins_and_doctor_list_it(acme: Acme) -> None:
    report = json.loads(acme.run("-m", "aoti_plugins", "plugins", "--json").stdout)
    assert report["provided"]["acme"]["targets"] == ["acme-v1"]
    assert report["conflicts"] == []
    (plugin,) = [one for one in report["plugins"] if one["name"] == "acme"]
    assert (plugin["distribution"], plugin["state"]) == ("acme-device", "ok")
    findings = json.loads(acme.run("-m", "aoti_plugins", "doctor", "--json").stdout)["findings"]
    (delegate,) = [one for one in findings if one["name"] == "delegate for acme"]
    assert delegate["ok"]
    assert delegate["found"] == str(acme.site / "acme_device" / "libacme_delegate.so")


def test_it_can_be_blocked(acme: Acme, tmp_path: Path) -> None:
    done = acme.run("-c", LOWER, str(tmp_path / "never.pte"), AOTI_PLUGINS_BLOCK="acme")
    assert done.returncode != 0
    assert "unknown target 'acme-v1' for device 'acme'" in done.stderr


def test_a_misspelt_device_is_an_error_that_lists_them(acme: Acme, tmp_path: Path) -> None:
    arguments = ["selftest", "make", str(tmp_path / "never.zip"), "--device", "amce"]
    done = acme.run("-m", "aoti_plugins", *arguments)
    assert done.returncode != 0
    assert "cannot lower for device 'amce'; there are: cpu, cuda, mps, acme" in done.stderr
