"""Turn the constants of generated code into storages (one blob each) and references into them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import torch

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.inductor.capture import GeneratedConstant
from aoti_plugins.lowering.stored_bytes import DigestThreads, TensorBytes, stored
from aoti_plugins.lowering.values import dtype_code
from aoti_plugins.payload import ConstantKind, ConstantRef

ALIGNMENT = 64
"""Of a weight in a program, whatever the device, in bytes; storages are cut at multiples of it."""

_WRITTEN = (ConstantKind.MUTABLE_BUFFER, ConstantKind.OWN_BUFFER)


@dataclass(frozen=True)
class PackedConstants:
    """Constants by storage.

    Attributes:
        storages: each distinct storage, cut to the part that is used.
        constants: one reference per constant; its ``storage`` is an index into ``storages``.
    """

    storages: tuple[bytes | TensorBytes, ...]
    constants: tuple[ConstantRef, ...]


def pack(
    constants: Iterable[GeneratedConstant],
    kinds: Mapping[str, ConstantKind],
    threads: DigestThreads | None = None,
) -> PackedConstants:
    """Collect the distinct storages of constants.

    Args:
        constants: what the generated code loads.
        kinds: what each FQN is in the exported program; others are constant tensors.
        threads: compute digests of storages after this has returned.

    Raises:
        LoweringError: a dtype that the payload cannot carry.
    """
    constants = list(constants)
    storages: list[bytes | TensorBytes] = []
    references: list[ConstantRef] = []
    for index, places in enumerate(_by_storage(constant.value for constant in constants)):
        group = [constants[place] for place in places]
        low, high = _used_part(constant.value for constant in group)
        refs = [_reference(constant, index, low, kinds) for constant in group]
        may_change = any(reference.kind in _WRITTEN for reference in refs)
        storages.append(stored(group[0].value, low, high, may_change, threads))
        references.extend(_as_one_state(refs))
    return PackedConstants(tuple(storages), tuple(references))


def begin_digests(
    values: Mapping[str, torch.Tensor], kinds: Mapping[str, ConstantKind], threads: DigestThreads
) -> None:
    """Begin with digests of constants before there is code that says which it loads.

    Args:
        values: constants of the program by FQN, after all passes.
        kinds: what each is in the exported program.
        threads: compute them.
    """
    stay = [one for fqn, one in values.items() if kinds.get(fqn) not in _WRITTEN]
    on_cpu = [one for one in stay if one.device.type == "cpu"]
    for places in _by_storage(on_cpu):
        low, high = _used_part(on_cpu[place] for place in places)
        stored(on_cpu[places[0]], low, high, False, threads)


def _by_storage(tensors: Iterable[torch.Tensor]) -> list[list[int]]:
    """The places of tensors that are in one storage."""
    found: dict[int, list[int]] = {}
    for place, tensor in enumerate(tensors):
        found.setdefault(tensor.untyped_storage()._cdata, []).append(place)
    return list(found.values())


def _used_part(tensors: Iterable[torch.Tensor]) -> tuple[int, int]:
    """First byte and end of what tensors cover of their storage, as it is cut."""
    extents = [_extent(tensor) for tensor in tensors]
    low = min(first for first, _ in extents) // ALIGNMENT * ALIGNMENT
    return low, max(end for _, end in extents)


def merge(constants: Iterable[GeneratedConstant]) -> list[GeneratedConstant]:
    """One constant per FQN, from the code of all targets.

    Raises:
        LoweringError: two targets need different values or layouts under one name.
    """
    merged: dict[str, GeneratedConstant] = {}
    for constant in constants:
        known = merged.setdefault(constant.fqn, constant)
        if not _same(known.value, constant.value):
            raise LoweringError(f"constant {constant.fqn!r} differs between the targets")
        if constant.mutated:
            merged[constant.fqn] = constant
    return list(merged.values())


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    layouts = [(t.dtype, t.size(), t.stride()) for t in (one, other)]
    return one is other or (layouts[0] == layouts[1] and torch.equal(one, other))


def _reference(
    constant: GeneratedConstant, storage: int, low: int, kinds: Mapping[str, ConstantKind]
) -> ConstantRef:
    value = constant.value
    kind = kinds.get(constant.fqn, ConstantKind.TENSOR)
    if constant.mutated and kind is not ConstantKind.OWN_BUFFER:
        kind = ConstantKind.MUTABLE_BUFFER
    return ConstantRef(
        fqn=constant.fqn,
        storage=storage,
        dtype=dtype_code(value.dtype, f"constant {constant.fqn!r}"),
        kind=kind,
        sizes=tuple(value.size()),
        strides=tuple(value.stride()),
        storage_offset=value.storage_offset() - low // value.element_size(),
    )


def _as_one_state(references: list[ConstantRef]) -> list[ConstantRef]:
    """Views of one storage: where a buffer among them is not shared, none can be."""
    if all(reference.kind is not ConstantKind.OWN_BUFFER for reference in references):
        return references
    return [
        replace(reference, kind=ConstantKind.OWN_BUFFER)
        if reference.kind is ConstantKind.MUTABLE_BUFFER
        else reference
        for reference in references
    ]


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and end of what a tensor covers of its storage."""
    first = tensor.storage_offset()
    if tensor.numel() == 0:
        return first * tensor.element_size(), first * tensor.element_size()
    reach = sum(
        (size - 1) * stride for size, stride in zip(tensor.size(), tensor.stride(), strict=True)
    )
    return first * tensor.element_size(), (first + reach + 1) * tensor.element_size()
