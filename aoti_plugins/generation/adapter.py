"""Adapters (LoRA): small matrices that make a model another one, in the format of peft.

Each adapted layer gives ``x W' + x A' B' * scale`` in place of ``x W'`` (Hu et al., "LoRA:
Low-Rank Adaptation of Large Language Models", 2021). Programs take all ``A`` and ``B * scale`` as
one vector.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aoti_plugins.errors import CheckpointError, ProgramError, needs_extra

_CONFIG, _WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_NAME = re.compile(r"(?:base_model\.model\.)?(?P<layer>.+)\.lora_(?P<which>[AB])\.weight")
_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
_NOTHING: tuple[Any, ...] = (None, False, [], {}, "none")
_UNSUPPORTED = (
    *("alora_invocation_tokens", "bias", "fan_in_fan_out", "layer_replication", "lora_bias"),
    *("modules_to_save", "target_parameters", "trainable_token_indices", "use_dora", "use_qalora"),
)
"""Settings of peft's whose adapters do more than the formula above."""


@dataclass(frozen=True)
class AdaptedLayer:
    """A layer that adapters change.

    Attributes:
        name: in the model of transformers, such as ``model.layers.0.self_attn.q_proj``.
        inputs: columns of its weight.
        outputs: rows of its weight.
    """

    name: str
    inputs: int
    outputs: int


@dataclass(frozen=True)
class AdapterLayout:
    """Where in a program's vector the matrices of an adapter are.

    Layer by layer, ``A`` ``[rank, inputs]`` and ``B`` ``[outputs, rank]``, row by row.

    Attributes:
        rank: the largest rank; matrices of a smaller one are filled with zeros.
        layers: in the order of the vector.
    """

    rank: int
    layers: tuple[AdaptedLayer, ...]

    @property
    def numel(self) -> int:
        """Numbers of the vector."""
        return sum(self.rank * (layer.inputs + layer.outputs) for layer in self.layers)

    def to_text(self) -> str:
        """What a program's method ``get_adapter_layout`` gives."""
        layers = [[layer.name, layer.inputs, layer.outputs] for layer in self.layers]
        return json.dumps({"rank": self.rank, "layers": layers}, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> AdapterLayout:
        """Read what ``to_text`` wrote.

        Raises:
            ProgramError: it is something else.
        """
        try:
            found = json.loads(text)
            layers = (AdaptedLayer(str(n), int(i), int(o)) for n, i, o in found["layers"])
            return cls(int(found["rank"]), tuple(layers))
        except (ValueError, KeyError, TypeError) as error:
            raise ProgramError(f"the layout of adapters is none: {error!r}") from error


def read_adapter(folder: Path, layout: AdapterLayout) -> Any:
    """Read an adapter that ``save_pretrained`` of peft wrote; peft is not needed.

    Args:
        folder: with ``adapter_config.json`` and ``adapter_model.safetensors``.
        layout: of the program that is to take it.

    Returns:
        ``[layout.numel]``, float32; ``B`` is multiplied by the adapter's scale.

    Raises:
        CheckpointError: the package safetensors or a file is missing, a file is damaged, the
            adapter is of a kind other than LoRA, or it does not fit the program.
    """
    config = _read_config(folder / _CONFIG)
    matrices = _read_matrices(folder / _WEIGHTS)
    _check_layers(folder, set(matrices), layout)
    parts: list[Any] = []
    for layer in layout.layers:
        parts += _padded(folder, layer, layout.rank, matrices.get(layer.name), config)
    result = np.concatenate([part.reshape(-1) for part in parts])
    if not np.isfinite(result).all():
        raise CheckpointError(f"{folder / _WEIGHTS}: there are numbers that are not finite")
    return result


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = dict(json.loads(_bytes_of(path)))
        kind = config["peft_type"]
        float(config["lora_alpha"])
        patterns = [config.get(name) or {} for name in ("alpha_pattern", "rank_pattern")]
        are_patterns = all(isinstance(one, dict) for one in patterns)
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: no configuration of an adapter: {error!r}") from error
    if kind != "LORA" or not are_patterns:
        raise CheckpointError(f"{path}: the adapter is of the kind {kind!r}, expected 'LORA'")
    wrong = [name for name in _UNSUPPORTED if config.get(name) not in _NOTHING]
    if wrong:
        raise CheckpointError(
            f"{path}: programs take no adapters with {', '.join(wrong)}; merge the adapter into "
            "the model (peft's merge_and_unload), and export that"
        )
    return config


def _read_matrices(path: Path) -> dict[str, dict[str, Any]]:
    """``A`` and ``B`` of each layer."""
    with needs_extra("language", CheckpointError):
        from safetensors import SafetensorError, deserialize
    try:
        tensors = dict(deserialize(_bytes_of(path)))
    except SafetensorError as error:
        raise CheckpointError(f"{path}: damaged: {error}; copy the file again") from error
    found: dict[str, dict[str, Any]] = {}
    unknown = []
    for name, tensor in tensors.items():
        match = _NAME.fullmatch(name)
        if match is None:
            unknown.append(name)
        else:
            found.setdefault(match["layer"], {})[match["which"]] = _numbers(path, name, tensor)
    if unknown or not found:
        what = f"tensors such as {sorted(unknown)[0]}" if unknown else "no matrices"
        raise CheckpointError(f"{path}: there are {what}, expected LAYER.lora_A.weight and lora_B")
    return found


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be read: {error.strerror}; an adapter is a folder that peft's "
            "save_pretrained wrote"
        ) from error


def _numbers(path: Path, name: str, tensor: Mapping[str, Any]) -> Any:
    """A tensor's numbers, float32."""
    dtype, shape, data = tensor["dtype"], tensor["shape"], bytes(tensor["data"])
    if dtype == "BF16":
        wide = np.frombuffer(data, "<u2").astype("<u4") << 16
        return wide.view("<f4").reshape(shape)
    if dtype not in _DTYPES:
        raise CheckpointError(f"{path}: {name} is {dtype}, expected one of BF16, {[*_DTYPES]}")
    return np.frombuffer(data, _DTYPES[dtype]).astype(np.float32).reshape(shape)


def _check_layers(folder: Path, names: set[str], layout: AdapterLayout) -> None:
    more = sorted(names - {layer.name for layer in layout.layers})
    if more:
        targets = ",".join(sorted({name.rpartition(".")[2] for name in names}))
        raise CheckpointError(
            f"{folder}: the adapter changes {len(more)} layers that the program takes no adapter "
            f"for, such as {more[0]}; if it is the model's, export it with --lora-targets {targets}"
        )


def _padded(
    folder: Path,
    layer: AdaptedLayer,
    rank: int,
    matrices: Mapping[str, Any] | None,
    config: Mapping[str, Any],
) -> list[Any]:
    """A layer's ``A`` and ``B * scale``, with zeros up to the program's rank."""
    padded = np.zeros((rank, layer.inputs), np.float32), np.zeros((layer.outputs, rank), np.float32)
    if matrices is None:
        return [*padded]
    inner, outer = (matrices.get(which, np.zeros(0)) for which in "AB")
    own_rank = inner.shape[0]
    expected = [(own_rank, layer.inputs), (layer.outputs, own_rank)]
    if [inner.shape, outer.shape] != expected:
        raise CheckpointError(
            f"{folder}: {layer.name} has matrices of {list(inner.shape)} and {list(outer.shape)}, "
            f"expected [rank, {layer.inputs}] and [{layer.outputs}, rank]; it is an adapter of "
            "another model, or damaged"
        )
    if own_rank > rank:
        raise CheckpointError(
            f"{folder}: the adapter has rank {own_rank}, and the program takes {rank} at most; "
            f"export it with --lora-rank {own_rank}"
        )
    padded[0][:own_rank] = inner
    padded[1][:, :own_rank] = outer * np.float32(_scale(layer.name, own_rank, config))
    return [*padded]


def _scale(name: str, rank: int, config: Mapping[str, Any]) -> float:
    """What an adapter's product is multiplied by in a layer."""
    alpha = config["lora_alpha"]
    for pattern, other in (config.get("alpha_pattern") or {}).items():
        if re.match(rf"(.*\.)?({pattern})$", name):
            alpha = other
            break
    return float(alpha) / (rank**0.5 if config.get("use_rslora") else rank)
