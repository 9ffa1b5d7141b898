"""A model of a user's, in whichever form it is."""

from __future__ import annotations

from pathlib import Path

from aoti_plugins.errors import CheckpointError
from aoti_plugins.language.checkpoint import Checkpoint
from aoti_plugins.language.gguf.checkpoint import GgufCheckpoint


def open_checkpoint(path: Path, quantize: bool = False) -> Checkpoint:
    """Open a folder that ``save_pretrained`` wrote, or a GGUF file.

    Args:
        path: what to open; any file is taken for a GGUF file.
        quantize: whether the weights are to be quantised.

    Raises:
        CheckpointError: what the checkpoint finds, or a GGUF file is to be quantised.
    """
    if path.suffix == ".gguf" and not path.is_file():
        raise CheckpointError(f"{path}: there is no such file")
    if not path.is_file():
        return Checkpoint(path)
    if quantize:
        raise CheckpointError(
            f"{path}: the weights are quantised already, and are exported as the file has them; "
            "leave out --quantize, or take the model's folder with safetensors"
        )
    return GgufCheckpoint(path)
