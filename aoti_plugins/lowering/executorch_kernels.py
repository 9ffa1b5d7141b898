"""Whether ExecuTorch has a kernel for an op that stays outside a delegate.

Its runtime in this process is asked: the kernels of the wheel, and those that the program which
lowers has loaded besides.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir.operator.convert import to_out_variant


def missing_kernel(op: Any) -> str:
    """What ExecuTorch lacks to run an op; empty where it has a kernel, or cannot be asked.

    Args:
        op: as an edge program has it, without the edge dialect's wrapper.
    """
    if not isinstance(op, torch._ops.OpOverload):
        return ""
    kernels = _registered()
    if not kernels or _qualified(op) in kernels:
        return ""
    try:
        out = _qualified(to_out_variant(op)[0])
    # It is in place, or nobody declared such a form; of some ops ExecuTorch has no schema at all.
    except (AssertionError, AttributeError, RuntimeError):
        return (
            "ExecuTorch cannot run it either: the op has no form that writes to an output that it "
            "is given, so that to_executorch() will fail"
        )
    if out in kernels:
        return ""
    return (
        f"ExecuTorch has no kernel {out} either: the program cannot be loaded where nobody "
        "registers one"
    )


def _qualified(op: torch._ops.OpOverload) -> str:
    schema = op._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def _registered() -> frozenset[str]:
    """Names of kernels; empty where ExecuTorch's extension does not fit this PyTorch."""
    try:
        from executorch.extension.pybindings.portable_lib import _get_operator_names
    except ImportError:
        return frozenset()
    return frozenset(_get_operator_names())
