"""Exporting modules whose weights are DTensors, with this rank's parts of them as constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from aoti_plugins.errors import LoweringError


def _weights(module: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers, also those that are there under several names."""
    parameters = module.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(module.named_buffers(remove_duplicate=False))}


class _OnLocalParts(nn.Module):
    """A module whose weights are tensors of this rank; as DTensors it gets them in each call."""

    def __init__(self, module: nn.Module) -> None:
        from torch.distributed.tensor import DTensor

        super().__init__()
        self.module = module
        self.specs: dict[str, dict[str, Any]] = {}
        """What a DTensor is beside its local part, as ``DTensor.from_local`` takes it."""
        for name, value in _weights(module).items():
            if isinstance(value, DTensor):
                self._take(name, value)

    def _take(self, name: str, value: Any) -> None:
        self.specs[name] = {
            "device_mesh": value.device_mesh,
            "placements": value.placements,
            "shape": value.shape,
            "stride": value.stride(),
        }
        local = value.to_local().detach()
        if isinstance(value, nn.Parameter):
            local = nn.Parameter(local, requires_grad=False)
        path, _, leaf = name.rpartition(".")
        setattr(self.module.get_submodule(path), leaf, local)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        from torch.distributed.tensor import DTensor
        from torch.utils import _pytree as pytree

        local = _weights(self.module)
        given = {
            name: DTensor.from_local(local[name], run_check=False, **spec)
            for name, spec in self.specs.items()
        }
        found = torch.func.functional_call(self.module, given, args, kwargs)
        return pytree.tree_map_only(DTensor, lambda x: x.full_tensor(), found)


def export_dtensors(
    module: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
) -> ExportedProgram:
    """Export a module that ``parallelize_module`` or ``distribute_module`` made parallel.

    ``torch.export.export`` does not take DTensors as weights. Here the program has this rank's
    parts of them as constants, and what PyTorch does between ranks as functional collectives.

    Args:
        module: with DTensors as weights, in the process group that it was made in. It is changed:
            its weights are local afterwards.
        args: example inputs, plain tensors.
        kwargs: more of them.
        dynamic_shapes: as for ``torch.export.export``.

    Returns:
        The program of this rank; results that were DTensors are whole in it. ``export_ranks`` makes
        one program of those of all ranks.

    Raises:
        LoweringError: PyTorch cannot trace it; says why.
    """
    # The public function traces before dispatch, where DTensors cannot be made.
    from torch.export._trace import _export

    wrapped = _OnLocalParts(module).eval()
    if dynamic_shapes is not None and not isinstance(dynamic_shapes, tuple | list):
        raise LoweringError(
            "dynamic_shapes of export_dtensors is a tuple with an entry for each input; found "
            f"{type(dynamic_shapes).__name__}"
        )
    shapes = {"args": tuple(dynamic_shapes)} if dynamic_shapes is not None else None
    try:
        with torch.no_grad():
            return _export(
                wrapped,
                args,
                dict(kwargs or {}),
                dynamic_shapes=shapes,
                strict=False,
                pre_dispatch=False,
            )
    except Exception as error:  # whatever a module's code and torch.export raise
        raise LoweringError(
            f"torch.export cannot take {type(module).__name__} with DTensors as weights: "
            f"{type(error).__name__}: {error}"
        ) from error
