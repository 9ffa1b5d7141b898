"""From a checkpoint of transformers to a program that generates text."""

from aoti_plugins.language.checkpoint import Checkpoint
from aoti_plugins.language.export import (
    check_groups,
    check_speculation,
    export_decoder,
    export_methods,
    metadata,
    quantize,
)
from aoti_plugins.language.opening import open_checkpoint
from aoti_plugins.language.quantised_layers import kept_matrices, quantised_layers

__all__ = [
    "Checkpoint",
    "check_groups",
    "check_speculation",
    "export_decoder",
    "export_methods",
    "kept_matrices",
    "metadata",
    "open_checkpoint",
    "quantised_layers",
    "quantize",
]
