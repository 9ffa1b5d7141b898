"""Several methods in one program: what they share, and what stays apart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn
from torch.export import export

from aoti_plugins import CpuPartitioner
from aoti_plugins.payload import Payload, decode
from aoti_plugins.runtime import Program


class EncoderDecoder(nn.Module):
    """Two halves that share an embedding ``[64, 32]``."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(64, 32)
        self.mix = nn.Linear(32, 32)
        self.head = nn.Linear(32, 64)

    def encode(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.mix(self.tokens(tokens)).mean(0))

    def decode(self, tokens: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        return self.head(self.tokens(tokens) + memory)


class Method(nn.Module):
    """One method of a module, under names of its own."""

    def __init__(self, model: nn.Module, name: str) -> None:
        super().__init__()
        self.model, self.name = model, name

    def forward(self, *inputs: torch.Tensor) -> Any:
        return getattr(self.model, self.name)(*inputs)


class Scaled(nn.Module):
    """A layer with other constants than other objects of this class, under the same names."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(32, 32, generator=generator))
        self.register_buffer("shift", torch.randn(32, generator=generator))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight + self.shift


def model() -> EncoderDecoder:
    torch.manual_seed(0)
    return EncoderDecoder().eval()


TOKENS, MEMORY = torch.tensor([3, 1, 63]), torch.linspace(-1, 1, 32)


@pytest.fixture(scope="module")
def lowered() -> Any:
    whole = model()
    programs = {
        "encode": export(Method(whole, "encode"), (TOKENS,)),
        "decode": export(Method(whole, "decode"), (TOKENS, MEMORY)),
        "one": export(Scaled(1), (torch.randn(2, 32),)),
        "other": export(Scaled(2), (torch.randn(2, 32),)),
        "same": export(Scaled(1), (torch.randn(2, 32),)),
    }
    edge = to_edge_transform_and_lower(programs, partitioner=[CpuPartitioner()])
    return edge.to_executorch()


@pytest.fixture(scope="module")
def program(lowered: Any) -> Iterator[Program]:
    with Program(bytes(lowered.buffer)) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def payloads(lowered: Any) -> dict[str, Payload]:
    data = lowered.executorch_program.backend_delegate_data
    found = {}
    for plan in lowered.executorch_program.execution_plan:
        (delegate,) = plan.delegates
        found[plan.name] = decode(bytes(data[delegate.processed.index].data))
    return found


def keys(payload: Payload) -> dict[str, str]:
    """The blob of each constant, by FQN."""
    return {c.fqn: payload.storages[c.storage].key for c in payload.constants}


@torch.no_grad()
def test_an_encoder_and_a_decoder(program: Program) -> None:
    (memory,) = program.method("encode")(TOKENS)
    torch.testing.assert_close(memory, model().encode(TOKENS))
    found = program.method("decode")(TOKENS, memory)[0]
    torch.testing.assert_close(found, model().decode(TOKENS, memory), rtol=1e-4, atol=1e-5)


def test_equal_weights_are_stored_once(lowered: Any, payloads: dict[str, Payload]) -> None:
    embedding = keys(payloads["encode"])["model.tokens.weight"]
    assert keys(payloads["decode"])["model.tokens.weight"] == embedding
    stored = bytes(lowered.buffer)
    assert stored.count(model().tokens.weight.detach().numpy().tobytes()) == 1


def test_different_constants_of_one_name_stay_apart(
    program: Program, payloads: dict[str, Payload]
) -> None:
    one, other, same = (keys(payloads[name]) for name in ("one", "other", "same"))
    assert one == same
    assert set(one) == set(other) == {"weight", "shift"}
    assert not set(one.values()) & set(other.values())
    x = torch.randn(2, 32)
    methods = {name: program.method(name) for name in ("one", "other", "same")}  # all at once
    for name, seed in (("one", 1), ("other", 2), ("same", 1)):
        expected = Scaled(seed)(x).detach()
        torch.testing.assert_close(methods[name](x)[0], expected, rtol=1e-4, atol=1e-4)


def test_equal_code_is_stored_once(payloads: dict[str, Payload]) -> None:
    blobs = {name: payload.targets[0].artifact_key for name, payload in payloads.items()}
    assert blobs["one"] == blobs["other"] == blobs["same"]
    assert blobs["encode"] != blobs["decode"]
