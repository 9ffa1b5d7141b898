"""A folder with a model of transformers: what is in it, and whether it can be exported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aoti_plugins.errors import CheckpointError
from aoti_plugins.language.architecture import check_architecture, positions
from aoti_plugins.language.recurrent import is_recurrent
from aoti_plugins.language.speech import is_speech, read_preprocessor

_INDEX = "model.safetensors.index.json"
_WEIGHTS = "model.safetensors"


class Checkpoint:
    """A folder that ``save_pretrained`` wrote: configuration, safetensors and ``tokenizer.json``.

    Opening it reads the configuration, the tokenizer and the heads of the weights' files, and finds
    what cannot be exported before a weight is read.

    Args:
        folder: the folder.

    Raises:
        CheckpointError: something is missing, damaged or of a kind that cannot be exported.
    """

    is_quantized = False
    """Whether weights of it are of few bits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        _require(folder, "config.json", "it has to be a folder that save_pretrained wrote")
        self.tokenizer_path = _require(
            folder, "tokenizer.json", "write it with tokenizer.save_pretrained (a fast tokenizer)"
        )
        self.chat_template = read_chat_template(folder)
        self.config = self._read_config()
        self.preprocessor = self._read_preprocessor()
        """How audio is read; ``None`` for models of text."""
        self._check_weights()
        check_vocabulary(self.tokenizer_path, self.config)

    @property
    def positions(self) -> int:
        """The most tokens that the model was made for, as far as a cache can hold them."""
        return positions(self.config)

    def outline(self) -> Any:
        """The model without weights, on the device ``meta``."""
        import torch

        with torch.device("meta"):
            return self._models().from_config(self.config)

    def load(self, dtype: str) -> Any:
        """Read the model on the CPU.

        Args:
            dtype: ``"float32"``, ``"bfloat16"``, ``"float16"``, or ``"auto"`` for the checkpoint's.

        Raises:
            CheckpointError: the weights are not those of the configuration.
        """
        try:
            model, found = self._models().from_pretrained(
                self.folder,
                dtype=dtype,
                attn_implementation="eager" if is_recurrent(self.config) else "sdpa",
                local_files_only=True,
                trust_remote_code=False,
                use_safetensors=True,
                output_loading_info=True,
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise CheckpointError(
                f"{self.folder}: transformers cannot load it: {_first_line(error)}"
            ) from error
        if found["missing_keys"]:
            names = ", ".join(sorted(found["missing_keys"])[:3])
            raise CheckpointError(
                f"{self.folder}: {len(found['missing_keys'])} weights of the model are in no file, "
                f"such as {names}; copy the checkpoint again"
            )
        return model.eval().requires_grad_(False)

    def _models(self) -> Any:
        """What makes models of this kind."""
        from transformers import AutoModelForCausalLM, AutoModelForSpeechSeq2Seq

        return AutoModelForSpeechSeq2Seq if is_speech(self.config) else AutoModelForCausalLM

    def _read_preprocessor(self) -> Any:
        if not is_speech(self.config):
            return None
        _require(
            self.folder,
            "generation_config.json",
            "it says which tokens a text begins with; copy it from the model's checkpoint",
        )
        return read_preprocessor(self.folder, self.config)

    def _read_config(self) -> Any:
        from transformers import AutoConfig

        path = self.folder / "config.json"
        try:
            config = AutoConfig.from_pretrained(
                self.folder, local_files_only=True, trust_remote_code=False
            )
        except Exception as error:  # each configuration checks itself in its own way
            raise CheckpointError(
                f"{path}: no configuration that transformers knows: {_first_line(error)}"
            ) from error
        if getattr(config, "quantization_config", None):
            raise CheckpointError(
                f"{path}: the weights are quantised already; take the model's checkpoint of 16 or "
                "32 bits, and quantise it with --quantize"
            )
        check_architecture(path, config)
        return config

    def _check_weights(self) -> None:
        from safetensors import SafetensorError, safe_open

        for path in self._weight_files():
            try:
                with safe_open(path, "pt"):
                    pass
            except (SafetensorError, OSError) as error:
                raise CheckpointError(
                    f"{path}: damaged: {_first_line(error)}; copy the file again"
                ) from error

    def _weight_files(self) -> list[Path]:
        index = self.folder / _INDEX
        if not index.is_file():
            return [_require(self.folder, _WEIGHTS, "write it with model.save_pretrained")]
        try:
            names = set(json.loads(index.read_text())["weight_map"].values())
        except (ValueError, KeyError, AttributeError) as error:
            raise CheckpointError(f"{index}: damaged: {_first_line(error)}") from error
        hint = f"{_INDEX} names it; copy the checkpoint again"
        return [_require(self.folder, name, hint) for name in sorted(names)]


def _require(folder: Path, name: str, hint: str) -> Path:
    path = folder / name
    if not path.is_file():
        raise CheckpointError(f"{folder}: there is no {name}; {hint}")
    return path


def read_chat_template(folder: Path) -> dict[str, Any] | None:
    """The template of conversations in a checkpoint, and the special tokens that it may use.

    Returns:
        ``template`` and ``tokens``; ``None`` where the checkpoint has no template.

    Raises:
        CheckpointError: its file is damaged.
    """
    alone, path = folder / "chat_template.jinja", folder / "tokenizer_config.json"
    try:
        settings = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        template = settings.get("chat_template")
        if isinstance(template, list):  # several by name
            template = {one["name"]: one["template"] for one in template}.get("default")
        if alone.exists():
            template = alone.read_text(encoding="utf-8")
        tokens = {name: _text(settings.get(name)) for name in ("bos_token", "eos_token")}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path}: damaged: {error!r}") from error
    return None if template is None else {"template": template, "tokens": tokens}


def _text(token: Any) -> str:
    """A special token's, which is a text or has one."""
    return str(token["content"]) if isinstance(token, dict) else token or ""


def check_vocabulary(tokenizer_path: Path, config: Any) -> None:
    """Refuse a tokenizer that has more tokens than the model.

    Raises:
        CheckpointError: it has.
    """
    vocabulary = max(vocabulary_of(tokenizer_path).values(), default=-1) + 1
    if vocabulary > config.vocab_size:
        raise CheckpointError(
            f"{tokenizer_path}: the tokenizer has {vocabulary} tokens and the model has "
            f"{config.vocab_size}; take the tokenizer that belongs to the model"
        )


def vocabulary_of(path: Path) -> dict[str, int]:
    """The tokens of a tokenizer, those that were added to it too, with their numbers."""
    from aoti_plugins.generation import read_tokenizer

    return dict(read_tokenizer(path).get_vocab(with_added_tokens=True))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
