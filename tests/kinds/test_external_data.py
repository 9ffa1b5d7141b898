"""Constants in data files beside the program."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from support import needs_executorchs_extension
from torch import nn
from torch.export import export

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program, register
from aoti_plugins.types import BlobName

X = torch.randn(2, 32, generator=torch.Generator().manual_seed(1))


class Counted(nn.Module):
    """A layer, and a state that begins at a value."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(32, 32, generator=generator))
        self.register_buffer("total", torch.linspace(0, seed, 32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(1)
        return x @ self.weight + self.total


def lower_to(folder: Path, seed: int = 1, **options: Any) -> Path:
    """Two methods of one module, with all data files, in a folder; the path of the program."""
    programs = {name: export(Counted(seed), (X,)) for name in ("one", "other")}
    edge = to_edge_transform_and_lower(programs, partitioner=[CpuPartitioner(**options)])
    lowered = edge.to_executorch()
    folder.mkdir(exist_ok=True)
    lowered.write_tensor_data_to_file(str(folder))
    path = folder / "program.pte"
    path.write_bytes(lowered.buffer)
    return path


def weight(seed: int = 1) -> bytes:
    return Counted(seed).weight.detach().numpy().tobytes()


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lower_to(tmp_path_factory.mktemp("data") / "tagged", external_data=True)


@torch.no_grad()
def test_the_default_tag_names_the_file(tagged: Path) -> None:
    data = tagged.parent / "aoti_cpu_blob.ptd"
    assert sorted(path.name for path in tagged.parent.iterdir()) == [data.name, tagged.name]
    assert data.read_bytes().count(weight()) == 1  # two methods, one copy
    assert weight() not in tagged.read_bytes()
    with Program(tagged, data_files=[data]) as program:
        for name in program.methods:
            torch.testing.assert_close(
                program.method(name)(X)[0], Counted(1)(X), rtol=1e-4, atol=1e-4
            )


@torch.no_grad()
def test_state_from_a_data_file_is_shared(tagged: Path) -> None:
    eager = Counted(1)
    with Program(tagged, data_files=[tagged.parent / "aoti_cpu_blob.ptd"]) as program:
        one = program.method("one")
        other = program.method("other")
        for method in (one, other, one):
            torch.testing.assert_close(method(X)[0], eager(X), rtol=1e-4, atol=1e-4)


def test_without_the_file_the_message_names_what_is_missing(tagged: Path) -> None:
    with (
        Program(tagged) as program,
        pytest.raises(ProgramError, match=r"_weights_blob' are not in .* load it together"),
    ):
        program.method("one")


@torch.no_grad()
def test_another_tag_and_another_models_file(tagged: Path, tmp_path: Path) -> None:
    path = lower_to(tmp_path, seed=2, external_data="layers")
    data = tmp_path / "layers.ptd"
    assert weight(2) in data.read_bytes()
    with Program(path, data_files=[data]) as program:
        torch.testing.assert_close(program.method("one")(X)[0], Counted(2)(X), rtol=1e-4, atol=1e-4)
    # The files of two models do not get mixed up: names are digests of the content.
    with (
        Program(tagged, data_files=[data]) as program,
        pytest.raises(ProgramError, match="_weights_blob' are not in"),
    ):
        program.method("one")


class ByKind:
    """Names blobs by kind, each kind in a file of its own."""

    @hookimpl
    def aoti_blob_name(self, kind: str, device: str, sha256: str) -> BlobName:
        return BlobName(f"{kind}-{sha256[:12]}", f"{device}_{kind}")


@torch.no_grad()
def test_a_hook_names_files_and_blobs(tmp_path: Path) -> None:
    with get_manager().registered(ByKind(), "by kind"):
        path = lower_to(tmp_path)
    files = [tmp_path / "cpu_so.ptd", tmp_path / "cpu_weights.ptd"]
    assert sorted(tmp_path.iterdir()) == [*files, path]
    assert b"so-" in files[0].read_bytes()
    assert weight() in files[1].read_bytes()
    with Program(path, data_files=files) as program:
        torch.testing.assert_close(program.method("one")(X)[0], Counted(1)(X), rtol=1e-4, atol=1e-4)
    with (
        Program(path, data_files=files[1:]) as program,
        pytest.raises(ProgramError, match="'so-"),
    ):
        program.method("one")


def test_damaged_data_files_are_refused(tagged: Path, tmp_path: Path) -> None:
    data = (tagged.parent / "aoti_cpu_blob.ptd").read_bytes()
    for name, content in (("cut", data[:64]), ("empty", b""), ("other", struct.pack("<q", 1) * 9)):
        path = tmp_path / f"{name}.ptd"
        path.write_bytes(content)
        with pytest.raises(ProgramError, match=f"{name}.ptd"):
            Program(tagged, data_files=[path])
    with pytest.raises(ProgramError, match="there is no file"):
        Program(tagged, data_files=[tmp_path / "none.ptd"])


@needs_executorchs_extension
@torch.no_grad()
def test_executorchs_own_runtime_reads_them(tagged: Path) -> None:
    from executorch.extension.pybindings.portable_lib import _load_for_executorch

    register()
    module = _load_for_executorch(str(tagged), str(tagged.parent / "aoti_cpu_blob.ptd"))
    found = module.run_method("one", (X,))[0]
    torch.testing.assert_close(found, Counted(1)(X), rtol=1e-4, atol=1e-4)
