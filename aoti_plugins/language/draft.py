"""Draft models: a second model in a program, which guesses what the first one says."""

from __future__ import annotations

import torch

from aoti_plugins.errors import CheckpointError
from aoti_plugins.language.checkpoint import Checkpoint, vocabulary_of
from aoti_plugins.language.recurrent import is_recurrent
from aoti_plugins.language.speech import is_speech


class DraftDecoder(torch.nn.Module):
    """A decoder whose state has other names than that of the model it guesses for.

    Args:
        decoder: takes tokens and positions, and gives logits.
    """

    def __init__(self, decoder: torch.nn.Module) -> None:
        super().__init__()
        self.draft = decoder

    def forward(self, tokens: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        """``[1, T]`` and ``[T]`` to ``[1, 1, vocabulary]``, float32."""
        return self.draft(tokens, positions)


def check_draft(checkpoint: Checkpoint, draft: Checkpoint, max_length: int) -> None:
    """Find out, before weights are read, whether a model can guess for another one.

    Args:
        checkpoint: of the model that it guesses for.
        draft: its own.
        max_length: the most tokens of a text.

    Raises:
        CheckpointError: it cannot: its tokens are others, its texts shorter, or it is of a kind
            whose texts cannot be cut where a guess was wrong.
    """
    where, config = draft.tokenizer_path, draft.config
    if is_speech(config) or is_recurrent(config):
        raise CheckpointError(
            f"{config.model_type!r} cannot be a draft model: its texts cannot be cut where a guess "
            "was wrong"
        )
    if vocabulary_of(where) != vocabulary_of(checkpoint.tokenizer_path):
        raise CheckpointError(
            f"{where}: the draft model has other tokens than the model; take one of the same family"
        )
    if draft.positions < max_length:
        raise CheckpointError(
            f"the draft model was made for {draft.positions} positions, and texts have up to "
            f"{max_length}; choose a smaller --max-length, or another draft model"
        )
