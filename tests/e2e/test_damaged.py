"""Damaged programs and programs for other machines: a clear error that names what is wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aoti_plugins.errors import ProgramError
from aoti_plugins.hooks import hookimpl
from aoti_plugins.payload import Payload, TargetArtifact, decode, encode
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program

ELF_MACHINE_AT = 18
ELF_AARCH64 = (0xB7).to_bytes(2, "little")

Blobs = dict[str, bytes]
Change = Callable[[Payload, Blobs], Payload]


class Changed:
    """Hook that lowers the MLP once and then changes payload and blobs of that result."""

    unchanged: Any = None

    def __init__(self, change: Change) -> None:
        self._change = change

    @hookimpl(tryfirst=True)
    def aoti_preprocess(
        self, device: str, edge_program: Any, compile_specs: list[Any], method: str
    ) -> Any:
        from executorch.exir._serialize._named_data_store import NamedDataStore
        from executorch.exir.backend.backend_details import PreprocessResult

        from aoti_plugins.cpu.device import CPU
        from aoti_plugins.lowering.pipeline import lower

        assert device == "cpu"
        if Changed.unchanged is None:
            Changed.unchanged = lower(CPU, edge_program, compile_specs, method)
        payload = decode(Changed.unchanged.processed_bytes)
        stored = Changed.unchanged.data_store_output
        blobs = {k: bytes(stored.buffers[e.buffer_index]) for k, e in stored.pte_data.items()}
        payload = self._change(payload, blobs)
        store = NamedDataStore()
        for key, data in blobs.items():
            store.add_named_data(key, data, 64)
        return PreprocessResult(encode(payload), {}, store.get_named_data_store_output())


@pytest.fixture(scope="module")
def changed_program(example_models: dict[str, Callable[[], Any]]) -> Callable[[Change], bytes]:
    """``changed_program(change)`` is the MLP's program after the change."""
    from support import lower

    def build(change: Change) -> bytes:
        model, inputs = example_models["mlp"]()
        with get_manager().registered(Changed(change), "changed"):
            return bytes(lower(model, inputs).buffer)

    return build


def _target(payload: Payload, **changes: Any) -> Payload:
    target: TargetArtifact = dataclasses.replace(payload.targets[0], **changes)
    return dataclasses.replace(payload, targets=(target,))


def _replace_blob(payload: Payload, blobs: Blobs, data: bytes) -> Payload:
    blobs[payload.targets[0].artifact_key] = data
    return _target(
        payload, artifact_nbytes=len(data), artifact_sha256=hashlib.sha256(data).digest()
    )


def _blob_for_another_machine(payload: Payload, blobs: Blobs) -> Payload:
    data = bytearray(blobs[payload.targets[0].artifact_key])
    data[ELF_MACHINE_AT : ELF_MACHINE_AT + 2] = ELF_AARCH64
    return _replace_blob(payload, blobs, bytes(data))


def _damaged_blob(payload: Payload, blobs: Blobs) -> Payload:
    key = payload.targets[0].artifact_key
    data = bytearray(blobs[key])
    data[len(data) // 2] ^= 1
    blobs[key] = bytes(data)
    return payload


def _no_weights(payload: Payload, blobs: Blobs) -> Payload:
    del blobs[payload.storages[0].key]
    return payload


def _short_weights(payload: Payload, blobs: Blobs) -> Payload:
    blobs[payload.storages[0].key] = blobs[payload.storages[0].key][:-4]
    return payload


CASES: dict[str, tuple[Change, tuple[str, ...]]] = {
    "target for another machine": (
        lambda p, _: _target(p, machine="aarch64", name="aarch64-v8"),
        ("aarch64-v8", "x86_64"),
    ),
    "CPU without a feature": (
        lambda p, _: _target(p, features=("avx2", "avx4096")),
        ("avx4096",),
    ),
    "blob for another machine": (_blob_for_another_machine, ("aarch64", "x86_64")),
    "damaged blob": (_damaged_blob, ("sha256 of blob",)),
    "not a shared object": (lambda p, b: _replace_blob(p, b, b"#!/bin/sh\n" * 20), ("ELF",)),
    "cut shared object": (
        lambda p, b: _replace_blob(p, b, b[p.targets[0].artifact_key][:4096]),
        ("truncated",),
    ),
    "missing symbol": (
        lambda p, _: _target(p, symbols=(*p.targets[0].symbols, "aoti_torch_zeta_out")),
        ("aoti_torch_zeta_out",),
    ),
    "missing blob": (lambda p, _: _target(p, artifact_key="absent"), ("'absent'",)),
    "missing weights": (_no_weights, ("_weights_blob'",)),
    "short weights": (_short_weights, ("_weights_blob'", "65536", "65532")),
    "another device": (lambda p, _: dataclasses.replace(p, device="cuda"), ("cuda", "cpu")),
}


@pytest.mark.parametrize("case", CASES)
def test_error_names_what_is_wrong(
    case: str, changed_program: Callable[[Change], bytes], capfd: pytest.CaptureFixture[str]
) -> None:
    change, words = CASES[case]
    data = changed_program(change)
    with Program(data) as program, pytest.raises(ProgramError) as caught:
        program.method()
    for word in words:
        assert word.lower() in str(caught.value).lower()
    assert "method 'forward'" in str(caught.value)


def test_the_unchanged_program_runs(changed_program: Callable[[Change], bytes]) -> None:
    import numpy as np

    with Program(changed_program(lambda payload, _: payload)) as program:
        assert program(np.ones((4, 64), np.float32))[0].shape == (4, 64)


def test_any_changed_byte_of_the_payload_is_noticed(
    changed_program: Callable[[Change], bytes],
) -> None:
    seen: list[bytes] = []

    def remember(payload: Payload, _: Blobs) -> Payload:
        seen.append(encode(payload))
        return payload

    data = changed_program(remember)
    start = data.index(seen[0])
    chosen = random.Random(0)
    for offset in range(len(seen[0])):
        damaged = bytearray(data)
        damaged[start + offset] ^= 1 << chosen.randrange(8)
        with Program(bytes(damaged)) as program, pytest.raises(ProgramError, match="payload"):
            program.method()


def test_a_truncated_program_is_refused(
    lowered_programs: Callable[[str], Path], tmp_path: Path
) -> None:
    data = lowered_programs("mlp").read_bytes()
    chosen = random.Random(0)
    lengths = [0, 1, 7, 8, 31, 32, 64, len(data) - 1]
    lengths += [chosen.randrange(len(data)) for _ in range(60)]
    for length in lengths:
        path = tmp_path / f"{length}.pte"
        path.write_bytes(data[:length])
        with pytest.raises(ProgramError, match=r"truncated|empty|is no ExecuTorch program"):
            Program(path).method()
