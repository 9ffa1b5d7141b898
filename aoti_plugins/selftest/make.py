"""Make a self-test: lower its models for a device and record what eager PyTorch computes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy
import torch
from executorch.exir import to_edge_transform_and_lower

import aoti_plugins
from aoti_plugins.errors import LoweringError
from aoti_plugins.selftest.bundle import Call, Case, write_bundle
from aoti_plugins.selftest.models import Model, models


def make_bundle(
    path: Path,
    device: str,
    partitioner: Callable[[], Any],
    names: Sequence[str] = (),
    report: Callable[[str], None] = lambda name: None,
) -> int:
    """Write a self-test for a device.

    Args:
        path: the file to write.
        device: the device that programs are for.
        partitioner: makes one for each model.
        names: of the models; empty: all.
        report: called with each model's name before it is lowered.

    Returns:
        How many bytes were written.

    Raises:
        LoweringError: a model has no such name, or does not become one delegate.
    """
    known = models()
    unknown = sorted(set(names) - known.keys())
    if unknown:
        raise LoweringError(
            f"no model of the self-test is called {', '.join(unknown)}; there are: "
            f"{', '.join(known)}"
        )
    contents = []
    for name in names or known:
        report(name)
        model = known[name]
        case = Case(name, model.description, model.tolerance, model.tolerance)
        contents.append((case, _lowered(name, model, partitioner()), _recorded(model)))
    built_with = {"aoti-plugins": aoti_plugins.__version__, "torch": torch.__version__}
    built_with["executorch"] = version("executorch")
    return write_bundle(path, device, built_with, contents)


def _lowered(name: str, model: Model, partitioner: Any) -> bytes:
    exported = torch.export.export(
        copy.deepcopy(model.module), model.calls[0], dynamic_shapes=model.dynamic_shapes
    )
    edge = to_edge_transform_and_lower(exported, partitioner=[partitioner])
    outside = [
        str(node.target)
        for node in edge.exported_program().graph.nodes
        if node.op == "call_function" and "aten" in str(node.target)
    ]
    if outside:
        raise LoweringError(
            f"model {name!r} of the self-test does not become one delegate; outside stay "
            f"{', '.join(outside)}"
        )
    return bytes(edge.to_executorch().buffer)


@torch.no_grad()
def _recorded(model: Model) -> list[Call]:
    eager = copy.deepcopy(model.module)
    calls = []
    for inputs in model.calls:
        found = eager(*inputs)
        outputs = found if isinstance(found, tuple) else (found,)
        calls.append(Call(_arrays(inputs), _arrays(outputs)))
    return calls


def _arrays(tensors: Sequence[torch.Tensor]) -> list[numpy.ndarray]:
    return [tensor.numpy().copy() for tensor in tensors]
