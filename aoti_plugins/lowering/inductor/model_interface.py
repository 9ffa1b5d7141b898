"""Cut the part out of a generated wrapper that is the same in every wrapper.

Inductor copies the C interface of a model, a file of PyTorch's, into each wrapper. Compiling it
takes longer than compiling the model. Cut out, it is compiled once per PyTorch, compiler and
device. Tested with torch 2.11 to 2.15; where the file is not found in the wrapper, nothing is
cut.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

_seen: dict[str, str] = {}

_BASE = "torch::aot_inductor::AOTInductorModelBase<torch::aot_inductor::AOTInductorModel>"


@dataclass(frozen=True)
class SplitWrapper:
    """A wrapper in two translation units.

    Attributes:
        interface: the same for every model; empty if the wrapper is not split.
        model: the rest.
    """

    interface: str
    model: str


def split_wrapper(wrapper: str) -> SplitWrapper:
    """Split a generated wrapper."""
    before, found, after = wrapper.partition(_interface())
    if not found:
        return SplitWrapper("", wrapper)
    return SplitWrapper(
        interface=f"{before}{found}\ntemplate class {_BASE};\n",
        model=f"extern template class {_BASE};\n{before}{after}",
    )


def note_interface(wrapper: str, torch_type: str) -> None:
    """Remember the interface that a wrapper has, which the next one for the device will have."""
    if torch_type not in _seen:
        _seen[torch_type] = split_wrapper(wrapper).interface


def expected_interface(torch_type: str) -> str:
    """The interface of wrappers for a device; empty if this process has seen none."""
    return _seen.get(torch_type, "")


@functools.cache
def _interface() -> str:
    import torch._inductor.codegen as codegen

    path = Path(codegen.__path__[0]) / "aoti_runtime" / "interface.cpp"
    return path.read_text("utf-8") if path.exists() else "\0"
