"""Where the tensors of a GGUF file belong in a model of transformers."""

from __future__ import annotations

from typing import Any

from aoti_plugins.errors import CheckpointError
from aoti_plugins.language.gguf.file import GgufFile, shape_of

ROTATIONS = "rope_freqs.weight"
"""What angles of rotary positions are divided by, as Llama 3 has it. Belongs to no parameter."""


def placed(file: GgufFile, outline: Any) -> dict[str, Any]:
    """The tensors of a file by the parameters that they are.

    Args:
        file: the file.
        outline: the model without weights.

    Returns:
        The package's tensors by names of parameters, and ``ROTATIONS`` where the file has them. A
        head that is the embedding is not in it.

    Raises:
        CheckpointError: tensors are missing, have other sizes, or belong nowhere.
    """
    names, sizes = _names(file, outline), _sizes(outline)
    found = {names.get(name, name): one for name, one in file.tensors.items()}
    stored = {parameter: name for name, parameter in names.items()}
    missing = sorted(stored.get(one) or one for one in sizes.keys() - found - {ROTATIONS})
    if missing:
        raise CheckpointError(
            f"{file.path}: {len(missing)} tensors of the model are missing, such as "
            f"{', '.join(missing[:3])}; copy the file again"
        )
    unknown = sorted(found[one].name for one in found.keys() - sizes)
    if unknown:
        raise CheckpointError(
            f"{file.path}: {len(unknown)} tensors belong nowhere in transformers' "
            f"{file.architecture}, such as {', '.join(unknown[:3])}; take the model's folder with "
            "safetensors"
        )
    _check_sizes(file, sizes, found)
    return found


def processor_of(file: GgufFile, config: Any) -> Any:
    """What transformers does to tensors of an architecture: it moves rows, or adds to norms."""
    from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor

    kind = TENSOR_PROCESSORS.get(file.architecture, TensorProcessor)
    return kind(config=config.to_dict())


def _names(file: GgufFile, outline: Any) -> dict[str, str]:
    """Names of parameters by names of tensors."""
    from transformers.modeling_gguf_pytorch_utils import get_gguf_hf_weights_map

    return get_gguf_hf_weights_map(outline, processor_of(file, outline.config))


def _sizes(outline: Any) -> dict[str, tuple[int, ...]]:
    """Sizes of all parameters, and of ``ROTATIONS`` where a model has one set of angles."""
    found = {name: tuple(one.shape) for name, one in outline.named_parameters()}
    for name, buffer in outline.named_buffers():
        if name.endswith(".inv_freq"):
            found[ROTATIONS] = tuple(buffer.shape)
    return found


def _check_sizes(file: GgufFile, sizes: dict[str, tuple[int, ...]], found: dict[str, Any]) -> None:
    wrong = [
        f"{one.name} is {list(shape_of(one))} and has to be {list(sizes[name])}"
        for name, one in found.items()
        if shape_of(one) != sizes[name]
    ]
    if wrong:
        raise CheckpointError(
            f"{file.path}: {len(wrong)} tensors have other sizes than the metadata says: "
            f"{'; '.join(sorted(wrong)[:3])}"
        )
