"""A model of transformers with the weights of a GGUF file."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from aoti_plugins.language.gguf.file import GgufFile, type_of
from aoti_plugins.language.gguf.small_weights import OF_LAYERS, small_weight
from aoti_plugins.language.gguf.tensors import ROTATIONS, placed, processor_of


def read_model(file: GgufFile, config: Any, dtype: torch.dtype) -> Any:
    """The model on the CPU, with weights in their bits where a program can hold them so.

    Those are the weights of linear layers and embeddings of the types ``OF_LAYERS``. A head that is
    the embedding shares its weight.

    Args:
        file: checked by ``placed``.
        config: of transformers.
        dtype: of all other weights and of the activations.
    """
    model = _empty(config, dtype)
    processor = processor_of(file, config)
    embedding, head = model.get_input_embeddings(), model.get_output_embeddings()
    tensors = placed(file, model)
    rotations = tensors.pop(ROTATIONS, None)
    for name, tensor in tensors.items():
        layer, _, leaf = name.rpartition(".")
        module = model.get_submodule(layer)
        setattr(module, leaf, _value(tensor, module, leaf, processor, dtype))
        if module is embedding and config.tie_word_embeddings:
            head.weight = embedding.weight
    if rotations is not None:
        _divide_rotations(model, torch.from_numpy(_floats(rotations, processor)))
    return model


def _empty(config: Any, dtype: torch.dtype) -> Any:
    """The model with buffers, and memory for weights that nobody has written."""
    from transformers import AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    with no_init_weights():
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    model.tie_weights()
    return model


def _value(
    tensor: Any, module: nn.Module, leaf: str, processor: Any, dtype: torch.dtype
) -> nn.Parameter:
    """What a tensor is as a parameter of a module."""
    is_small = isinstance(module, (nn.Linear, nn.Embedding)) and type_of(tensor) in OF_LAYERS
    if leaf == "weight" and is_small:  # a program can hold it in its bits
        # A row's blocks are of this row alone, so rows move as they do in a matrix of floats.
        rows = processor.process(weights=tensor.data, name=tensor.name).weights
        return _parameter(small_weight(rows, type_of(tensor), dtype))
    return _parameter(torch.from_numpy(_floats(tensor, processor)).to(dtype))


def _floats(tensor: Any, processor: Any) -> Any:
    """A tensor's numbers, float32, as transformers has them."""
    from gguf import dequantize

    found = dequantize(tensor.data, tensor.tensor_type)
    return processor.process(weights=found, name=tensor.name).weights.astype("float32", copy=True)


def _divide_rotations(model: Any, factors: Tensor) -> None:
    """Turn queries and keys by smaller angles."""
    for module in model.modules():
        if hasattr(module, "inv_freq"):
            module.inv_freq = module.inv_freq / factors


def _parameter(value: Tensor) -> nn.Parameter:
    return nn.Parameter(value, requires_grad=False)
