"""How fast an answer reads the weights: their bytes, the memory's bandwidth, what is said."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tiny_checkpoints import GROUP

from aoti_plugins import language
from aoti_plugins.cli._sampling import answer_text, bandwidth_share, memory_bandwidth
from aoti_plugins.cli.app import app
from aoti_plugins.generation import TextGenerator
from aoti_plugins.language.token_bytes import token_nbytes
from aoti_plugins.profiling import machine

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def _model(folder: Path, quantize: str) -> Any:
    model = language.Checkpoint(folder).load("float32")
    if quantize != "none":
        language.quantize(model, quantize, GROUP)
    return model


@pytest.mark.parametrize(("kind", "is_tied"), [("llama", False), ("llama_tied", True)])
def test_bytes_that_a_token_reads(
    kind: str, is_tied: bool, checkpoints: Callable[[str], Path]
) -> None:
    plain = _model(checkpoints(kind), "none")
    embedding = plain.get_input_embeddings().weight
    matrices = [one for one in plain.parameters() if one.dim() > 1 and one is not embedding]
    matrices += [embedding] if is_tied else []
    vectors = sum(one.nbytes for one in plain.parameters() if one.dim() == 1)
    numel = sum(one.numel() for one in matrices)
    assert token_nbytes(plain) == 4 * numel + vectors
    for quantize, bits in (("int8", 8), ("int4", 4)):
        small = token_nbytes(_model(checkpoints(kind), quantize))
        # A scale of 4 bytes and a zero of one for each group.
        assert small == numel * bits // 8 + numel // GROUP * 5 + vectors


def test_experts_are_chosen_by_the_token(checkpoints: Callable[[str], Path]) -> None:
    assert token_nbytes(_model(checkpoints("qwen3_moe"), "none")) == 0


def test_generate_says_it(exported: Callable[..., Path]) -> None:
    arguments = ["generate", str(exported("llama", "int4")), "Hello", "--max-new-tokens", "12"]
    done = CliRunner().invoke(app, [*arguments, "--json"])
    found = json.loads(done.stdout)
    assert 0 < found["bandwidth_share"] < 1
    done = CliRunner().invoke(app, arguments)
    assert "% of the memory's bandwidth" in done.stderr


def test_what_is_not_known_is_not_said(
    exported: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with TextGenerator(exported("llama", "int4")) as generator:
        assert generator.device == "cpu"
        assert bandwidth_share(generator) is None  # no answer yet
        list(generator.tokens([1, 2], max_new_tokens=4))
        assert bandwidth_share(generator)
        generator.statistics.guessed_tokens = 3  # several tokens in a call
        assert bandwidth_share(generator) is None
        generator.statistics.guessed_tokens = 0
        for device in (None, "mps"):
            generator.device = device
            assert bandwidth_share(generator) is None
        generator.device = "cuda"
        for found in (None, 1e15):
            memory_bandwidth.cache_clear()
            monkeypatch.setattr("aoti_plugins.cli._sampling.gpu_bandwidth", lambda one=found: one)
            assert (bandwidth_share(generator) is None) is (found is None)
        rate = generator.token_nbytes * generator.statistics.tokens_per_s
        assert bandwidth_share(generator) == rate / 1e15
        memory_bandwidth.cache_clear()
        assert "bandwidth" not in answer_text(generator.statistics)


class _Driver:
    """Stands for libcuda: a GPU with a bus of 5120 bits and a clock of 2619 MHz."""

    def __init__(self, failing: str = "") -> None:
        self._failing = failing

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return int(self._failing == "cuInit")

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:  # noqa: N802
        return int(self._failing == "cuDeviceGet")

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: Any) -> int:  # noqa: N802
        value._obj.value = {16: 114, 36: 2_619_000, 37: 5120, 75: 9, 76: 0}[attribute]
        return int(self._failing == "cuDeviceGetAttribute")


def test_a_gpu_computes_what_one_of_its_kind_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """An H100 with fewer multiprocessors than the one that is known."""
    monkeypatch.setattr(ctypes, "CDLL", lambda name: _Driver())
    found = machine.machine_of("cuda")
    assert found.flops_per_second == pytest.approx(989.4e12 * 114 / 132)
    assert found.bytes_per_second == machine.gpu_bandwidth()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: _Driver("cuInit"))
    assert machine.machine_of("cuda").flops_per_second == 0


def test_bandwidth_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: _Driver())
    assert machine.gpu_bandwidth() == pytest.approx(3.352e12, rel=1e-3)
    for failing in ("cuInit", "cuDeviceGet", "cuDeviceGetAttribute"):
        monkeypatch.setattr(ctypes, "CDLL", lambda name, failing=failing: _Driver(failing))
        assert machine.gpu_bandwidth() is None

    def missing(name: str) -> Any:
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", missing)
    assert machine.gpu_bandwidth() is None
