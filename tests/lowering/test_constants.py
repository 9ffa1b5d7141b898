"""Constants are stored once per storage, cut to what is used."""

from __future__ import annotations

import numpy as np
import torch

from aoti_plugins.lowering.constants import pack
from aoti_plugins.lowering.inductor.capture import GeneratedConstant
from aoti_plugins.payload import ConstantKind


def _constant(fqn: str, value: torch.Tensor, mutated: bool = False) -> GeneratedConstant:
    return GeneratedConstant(fqn.replace(".", "_"), fqn, value, mutated)


def test_views_of_one_storage_share_it() -> None:
    base = torch.arange(64, dtype=torch.float32)
    packed = pack([_constant("a", base[:8]), _constant("b", base[4:12].view(2, 4).t())], {})
    (storage,) = packed.storages
    np.testing.assert_array_equal(np.frombuffer(storage, np.float32), np.arange(12))
    a, b = packed.constants
    assert (a.storage, b.storage) == (0, 0)
    assert (a.storage_offset, b.storage_offset) == (0, 4)
    assert (b.sizes, b.strides) == ((4, 2), (1, 4))


def test_only_the_used_part_is_kept_and_stays_aligned() -> None:
    base = torch.arange(1000, dtype=torch.int16)
    packed = pack([_constant("tail", base[900:])], {})
    (storage,) = packed.storages
    (tail,) = packed.constants
    values = np.frombuffer(storage, np.int16)
    np.testing.assert_array_equal(values[tail.storage_offset :], np.arange(900, 1000))
    assert len(storage) < 2 * 150
    assert (1800 - 2 * tail.storage_offset) % 64 == 0


def test_kinds() -> None:
    kinds = {"w": ConstantKind.PARAMETER, "b": ConstantKind.BUFFER, "m": ConstantKind.BUFFER}
    one = torch.ones(1)
    packed = pack(
        [
            _constant("w", one),
            _constant("b", one.clone()),
            _constant("m", one.clone(), mutated=True),
            _constant("made_by_inductor", one.clone()),
        ],
        kinds,
    )
    assert [c.kind for c in packed.constants] == [
        ConstantKind.PARAMETER,
        ConstantKind.BUFFER,
        ConstantKind.MUTABLE_BUFFER,
        ConstantKind.TENSOR,
    ]


def test_empty_and_scalar() -> None:
    packed = pack(
        [_constant("empty", torch.empty(0, 3)), _constant("scalar", torch.tensor(2.5))], {}
    )
    assert [len(s) for s in packed.storages] == [0, 4]
    assert [c.sizes for c in packed.constants] == [(0, 3), ()]


def test_bfloat16_bytes_are_kept() -> None:
    value = torch.randn(5).bfloat16()
    packed = pack([_constant("w", value)], {})
    assert packed.storages[0] == value.view(torch.int16).numpy().tobytes()
