"""What is in a GGUF file, by the package ``gguf``, which maps it into memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from aoti_plugins.errors import CheckpointError, needs_extra

_MAGIC = b"GGUF"
_FLOATS = ("BF16", "F16", "F32", "F64")
_UNKNOWN_TYPE = "GGMLQuantizationType"  # the package's enumeration, which its error names


class GgufFile:
    """Metadata and tensors of a file. Opening it reads no weights.

    Args:
        path: the file.

    Raises:
        CheckpointError: it is no GGUF file, damaged, cut off, or has types that ``gguf`` does not
            know; or the package is missing.

    Attributes:
        path: the file.
        tensors: of the package, by name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = _opened(path)
        self.tensors: dict[str, Any] = {one.name: one for one in self._reader.tensors}
        self._check_types()

    def value(self, key: str, default: Any = None) -> Any:
        """A number, text or list of the metadata."""
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def count(self, key: str) -> int:
        """How many numbers or texts a list of the metadata has; 0 if there is none."""
        field = self._reader.get_field(key)
        return 0 if field is None else len(field.data)

    @property
    def architecture(self) -> str:
        """What model it is, by llama.cpp's name; empty if the file does not say."""
        return str(self.value("general.architecture", ""))

    @property
    def is_quantized(self) -> bool:
        """Whether any tensor has another type than floats."""
        return any(type_of(tensor) not in _FLOATS for tensor in self.tensors.values())

    @property
    def dtype(self) -> str:
        """Of the matrices, and ``"bfloat16"`` where they are quantised."""
        kinds = {type_of(one) for one in self.tensors.values() if len(one.shape) > 1}
        if kinds <= {"F32", "F64"}:
            return "float32"
        return "float16" if kinds <= {"F16", "F32"} else "bfloat16"

    def _check_types(self) -> None:
        from gguf import GGML_QUANT_SIZES, dequantize

        samples = {type_of(one): one for one in self.tensors.values()}
        for kind, tensor in sorted(samples.items()):
            nbytes = GGML_QUANT_SIZES[tensor.tensor_type][1]
            try:
                dequantize(np.zeros((1, nbytes), np.uint8), tensor.tensor_type)
            except NotImplementedError as error:
                raise CheckpointError(
                    f"{self.path}: {tensor.name} has the type {kind}, which the package gguf "
                    "cannot read; take a file of another type, such as Q4_K_M"
                ) from error


def type_of(tensor: Any) -> str:
    """The type of a tensor's numbers, such as ``"F32"`` or ``"Q4_K"``."""
    return str(tensor.tensor_type.name)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """A tensor's sizes in PyTorch's order."""
    return tuple(int(size) for size in reversed(tensor.shape))


def _opened(path: Path) -> Any:
    with needs_extra("language", CheckpointError):
        from gguf import GGUFReader
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise CheckpointError(f"{path}: no GGUF file: it does not begin with GGUF")
    try:
        return GGUFReader(path)
    except Exception as error:  # whatever numpy finds where the file ends
        if _UNKNOWN_TYPE in str(error):
            raise CheckpointError(
                f"{path}: a tensor has a type that the package gguf does not know: {error}; try a "
                "newer gguf, or a file of another type, such as Q4_K_M"
            ) from error
        raise CheckpointError(
            f"{path}: damaged or cut off: {error}; copy the file again"
        ) from error
