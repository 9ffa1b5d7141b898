"""How code for a CPU is generated."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.device import check_flags
from aoti_plugins.errors import LoweringError
from aoti_plugins.types import Target


@contextlib.contextmanager
def environment(target: Target, options: LoweringOptions) -> Iterator[None]:
    """Patches under which Inductor generates for a CPU target."""
    del options
    from aoti_plugins.cpu.inductor.channels_last_inputs import channels_last_inputs
    from aoti_plugins.cpu.inductor.clamped_places import clamped_places
    from aoti_plugins.cpu.inductor.max_pools import max_pools
    from aoti_plugins.cpu.inductor.short_vectors import short_vectors
    from aoti_plugins.lowering.inductor.direct_tiles import direct_tiles
    from aoti_plugins.lowering.inductor.libtorch_only import no_onednn
    from aoti_plugins.lowering.inductor.no_triton import no_triton
    from aoti_plugins.lowering.inductor.parallel_threshold import parallel_threshold
    from aoti_plugins.lowering.inductor.rows_at_once import rows_at_once
    from aoti_plugins.lowering.inductor.scatter_to_one_place import scatter_to_one_place
    from aoti_plugins.lowering.inductor.vector_flags import (
        masked_truths,
        truths_of_places,
        vector_flags,
    )
    from aoti_plugins.lowering.inductor.vector_isa import vector_isa
    from aoti_plugins.lowering.inductor.wide_sums import wide_sums

    with (
        vector_isa(target.properties["vector_isa"]),
        no_onednn(),
        no_triton(),
        parallel_threshold(),
        direct_tiles(),
        scatter_to_one_place(),
        rows_at_once(),
        vector_flags(),
        masked_truths(),
        truths_of_places(),
        wide_sums(),
        channels_last_inputs(),
        max_pools(),
        clamped_places(),
        short_vectors(),
    ):
        yield


def check_target(target: Target) -> None:
    """Refuse a target without what code for a CPU is made by.

    Raises:
        LoweringError: what the properties lack.
    """
    from aoti_plugins.lowering.inductor.vector_isa import NAMES

    found = target.properties.get("vector_isa")
    if found not in NAMES:
        raise LoweringError(
            f"properties['vector_isa'] of target {target.name!r} must be one of "
            f"{', '.join(NAMES)}; found {found!r}"
        )
    check_flags(target)
