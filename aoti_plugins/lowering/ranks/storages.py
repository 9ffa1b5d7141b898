"""Constants of all ranks as storages: which are equal on all, and how the others are named.

A storage of which each rank has its own is in the payload once: its key ends with ``@rank``, and
that of a rank's bytes with the rank's number behind it. Its digest in the payload is that of a
table, in the program under the key with ``@ranks``: the digests of all ranks' bytes, 32 bytes each,
in the order of ranks. Read by native/src/delegate/rank_storages_linux.cpp, which must match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch.export import ExportedProgram

from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.constants import PackedConstants, pack
from aoti_plugins.lowering.inductor.capture import GeneratedConstant
from aoti_plugins.lowering.program_constants import value_of
from aoti_plugins.lowering.stored_bytes import DigestThreads, TensorBytes, sha256_of
from aoti_plugins.payload import ConstantKind


def rank_tag(external_data: str, rank: int) -> str:
    """Of the data file that takes one rank's weights; its name is this and ``.ptd``.

    Args:
        external_data: the tag of the weights that are equal on all ranks; empty: they have none.
        rank: whose.
    """
    return f"{external_data}.rank-{rank}" if external_data else f"rank-{rank}"


@dataclass(frozen=True)
class RankStorage:
    """A storage of which each rank has its own bytes.

    Attributes:
        parts: by rank, of equal length.
    """

    parts: tuple[bytes | TensorBytes, ...]

    @property
    def table(self) -> bytes:
        """The digests of all ranks."""
        return b"".join(map(sha256_of, self.parts))


@dataclass(frozen=True)
class PackedRanks:
    """Constants by storage, for all ranks.

    Attributes:
        storages: one each where they are equal on all ranks.
        packed: references to constants, as for rank 0.
    """

    storages: tuple[bytes | TensorBytes | RankStorage, ...]
    packed: PackedConstants


def pack_ranks(
    constants: Sequence[GeneratedConstant],
    programs: Sequence[ExportedProgram],
    kinds: Mapping[str, ConstantKind],
    threads: DigestThreads | None = None,
) -> PackedRanks:
    """Collect the storages of constants of all ranks.

    Args:
        constants: what the code loads, with the values of rank 0.
        programs: by rank, after all passes; only rank 0's became code.
        kinds: what each FQN is in the exported program.
        threads: compute digests of storages; of those that ranks have otherwise they are awaited.

    Raises:
        LoweringError: ranks have constants of other layouts, or a constant was computed that is not
            in the program.
    """
    first = pack(constants, kinds, threads)
    if len(programs) == 1:
        return PackedRanks(first.storages, first)
    by_rank = [first.storages]
    for rank, program in enumerate(programs[1:], 1):
        own = pack([_of_rank(one, program, programs[0], rank) for one in constants], kinds, threads)
        if own.constants != first.constants:
            raise LoweringError(
                f"constants of rank {rank} share memory otherwise than those of rank 0"
            )
        by_rank.append(own.storages)
    storages = zip(*by_rank, strict=True)
    return PackedRanks(tuple(map(_one_or_all, storages)), first)


def _one_or_all(parts: tuple[bytes | TensorBytes, ...]) -> bytes | TensorBytes | RankStorage:
    return parts[0] if len(set(map(sha256_of, parts))) == 1 else RankStorage(parts)


def _of_rank(
    constant: GeneratedConstant, program: ExportedProgram, first: ExportedProgram, rank: int
) -> GeneratedConstant:
    """The constant of another rank, as the code of rank 0 takes it."""
    fqn = _fqn_of(constant, first)
    value, own = value_of(program, fqn), value_of(first, fqn)
    if value is None or own is None:
        raise LoweringError(
            f"the code loads {constant.fqn!r}, which is no constant of the program: what it is on "
            f"rank {rank} is not known"
        )
    if (value.dtype, value.shape) != (own.dtype, own.shape):
        raise LoweringError(
            f"constant {constant.fqn!r} is {value.dtype} {list(value.shape)} on rank {rank} and "
            f"{own.dtype} {list(own.shape)} on rank 0"
        )
    if value is own:
        value = constant.value
    return replace(constant, value=_with_layout(value, constant.value))


def _fqn_of(constant: GeneratedConstant, program: ExportedProgram) -> str:
    """A constant's name in the program; Inductor has others for those that are no state."""
    if value_of(program, constant.fqn) is not None:
        return constant.fqn
    storage = constant.value.untyped_storage()._cdata
    for fqn, value in (*program.state_dict.items(), *program.constants.items()):
        if isinstance(value, torch.Tensor) and value.untyped_storage()._cdata == storage:
            return fqn
    return constant.fqn


def _with_layout(value: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
    if value.stride() == used.stride():
        return value.detach()
    made = torch.empty_strided(used.size(), used.stride(), dtype=used.dtype)
    return made.copy_(value.detach())
