"""From a checkpoint of transformers to a program that generates text."""

from aoti_plugins.language.adapters import add_adapters, check_adapters
from aoti_plugins.language.checkpoint import Checkpoint
from aoti_plugins.language.draft import check_draft
from aoti_plugins.language.export import (
    check_groups,
    check_speculation,
    export_decoder,
    export_draft,
    export_speech,
    metadata,
    quantize,
)
from aoti_plugins.language.opening import open_checkpoint
from aoti_plugins.language.quantised_layers import kept_matrices, quantised_layers
from aoti_plugins.language.ranks import check_ranks, export_for_ranks

__all__ = [
    "Checkpoint",
    "add_adapters",
    "check_adapters",
    "check_draft",
    "check_groups",
    "check_ranks",
    "check_speculation",
    "export_decoder",
    "export_draft",
    "export_for_ranks",
    "export_speech",
    "kept_matrices",
    "metadata",
    "open_checkpoint",
    "quantised_layers",
    "quantize",
]
