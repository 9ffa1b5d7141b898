"""From a checkpoint of transformers to a program that generates text."""

from aoti_plugins.language.checkpoint import Checkpoint
from aoti_plugins.language.export import check_groups, export_decoder, metadata, quantize

__all__ = ["Checkpoint", "check_groups", "export_decoder", "metadata", "quantize"]
