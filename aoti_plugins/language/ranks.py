"""Language models of transformers for several ranks: each with its part of the weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch.export import ExportedProgram

from aoti_plugins.errors import CheckpointError, LoweringError
from aoti_plugins.language.checkpoint import Checkpoint
from aoti_plugins.language.gguf.checkpoint import GgufCheckpoint
from aoti_plugins.language.recurrent import is_recurrent
from aoti_plugins.language.speech import is_speech
from aoti_plugins.parallel.layers import names_like, parallelize
from aoti_plugins.parallel.merging import merge_ranks

_HEADS = ("num_attention_heads", "num_key_value_heads")


def check_ranks(checkpoint: Checkpoint, num_ranks: int) -> None:
    """Find out, from a configuration, whether a model can be divided among ranks.

    Raises:
        CheckpointError: says why it cannot.
    """
    config = checkpoint.config
    if isinstance(checkpoint, GgufCheckpoint):
        raise CheckpointError(
            "the weights of a GGUF file cannot be divided among ranks; export the model's "
            "checkpoint of 16 or 32 bits with --tensor-parallel, and quantise it with --quantize"
        )
    if is_speech(config) or is_recurrent(config):
        raise CheckpointError(
            f"{config.model_type!r} cannot be divided among ranks; only decoders with keys and "
            "values can"
        )
    if not getattr(config, "base_model_tp_plan", None):
        raise CheckpointError(
            f"transformers has no plan of how {config.model_type!r} is divided among ranks "
            "(base_model_tp_plan)"
        )
    for name in _HEADS:
        heads = getattr(config, name, None)
        if heads is not None and heads % num_ranks:
            raise CheckpointError(
                f"the model has {heads} {name.removeprefix('num_').replace('_', ' ')}, which "
                f"cannot be divided among {num_ranks} ranks; choose a --tensor-parallel that "
                "divides them"
            )


def model_of_rank(model: Any, rank: int, num_ranks: int) -> Any:
    """A model that has one rank's part of the weights of another, and shares the rest with it.

    Args:
        model: with all weights.
        rank: whose part.
        num_ranks: how many there are.

    Raises:
        CheckpointError: its weights cannot be divided.
    """
    tensors = [*model.parameters(), *model.buffers()]
    part = copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
    head_dim = getattr(model.config, "head_dim", None)
    heads = {name: getattr(model.config, name, None) for name in _HEADS}
    if head_dim is None:
        part.config.head_dim = model.config.hidden_size // model.config.num_attention_heads
    for name, count in heads.items():
        if count is not None:
            setattr(part.config, name, count // num_ranks)
    try:
        parallelize(part, _plan(model, num_ranks), rank, num_ranks)
    except LoweringError as error:
        raise CheckpointError(
            f"{type(model).__name__} cannot be divided among {num_ranks} ranks: {error}"
        ) from error
    return part


def _plan(model: Any, num_ranks: int) -> dict[str, str]:
    """The plan of transformers, as far as it is about modules that this model has."""
    plan = dict(model.tp_plan)
    if model.config.vocab_size % num_ranks:
        plan = {n: s for n, s in plan.items() if s not in ("embedding_rowwise", _GATHERED)}
    names = [name for name, _ in (*model.named_modules(), *model.named_parameters())]
    return {pattern: style for pattern, style in plan.items() if names_like(pattern, names)}


_GATHERED = "colwise_gather_output"


def export_for_ranks(
    model: Any, num_ranks: int, export: Callable[[Any], dict[str, ExportedProgram]]
) -> dict[str, ExportedProgram]:
    """Export a model for several ranks.

    Args:
        model: with all weights; not quantised.
        num_ranks: how many ranks there are.
        export: gets the model of each rank, which it may quantise, and exports its methods.

    Returns:
        The methods by name, each one program for all ranks.

    Raises:
        CheckpointError: the model cannot be divided or exported.
    """
    programs = [export(model_of_rank(model, rank, num_ranks)) for rank in range(num_ranks)]
    try:
        return merge_ranks(programs)
    except LoweringError as error:
        raise CheckpointError(
            f"{type(model).__name__} is not one program for {num_ranks} ranks: {error}"
        ) from error
