"""How the model in a GGUF file cuts texts, as transformers reads it."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from aoti_plugins.errors import CheckpointError
from aoti_plugins.language.gguf.file import GgufFile

_TOKENS = ("bos_token", "eos_token")
_BEGINNING = ("llama3", "llama-v3", "llama-bpe")
"""Ways to cut texts of which llama.cpp knows that a text begins with a token."""


def write_tokenizer(file: GgufFile, path: Path) -> dict[str, Any] | None:
    """Write the tokenizer as ``tokenizer.json``.

    Args:
        file: the file.
        path: where to write it.

    Returns:
        The chat template and its tokens, as ``read_chat_template`` gives them; ``None`` where the
        file has no template.

    Raises:
        CheckpointError: the file has no tokenizer, or none that transformers knows.
    """
    tokenizer = _tokenizer(file)
    settings = json.loads(tokenizer.backend_tokenizer.to_str())
    # Classes of transformers add tokens of theirs behind those of the file.
    count = file.count("tokenizer.ggml.tokens")
    settings["added_tokens"] = [one for one in settings["added_tokens"] if one["id"] < count]
    path.write_text(json.dumps(settings, ensure_ascii=False), encoding="utf-8")
    template = file.value("tokenizer.chat_template")
    if template is None:
        return None
    return {"template": template, "tokens": {one: getattr(tokenizer, one) or "" for one in _TOKENS}}


def _tokenizer(file: GgufFile) -> Any:
    """Transformers' tokenizer; what lies beside the file is nothing to it."""
    from transformers import PreTrainedTokenizerFast

    if file.value("tokenizer.ggml.model") is None:
        raise CheckpointError(f"{file.path}: there is no tokenizer in it; convert the model again")
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(file.path.resolve(), Path(folder, file.path.name))
        try:
            found = PreTrainedTokenizerFast.from_pretrained(
                folder, gguf_file=file.path.name, local_files_only=True, trust_remote_code=False
            )
        except Exception as error:  # whatever a tokenizer's class finds
            raise CheckpointError(
                f"{file.path}: no tokenizer that transformers knows: {error!r}"
            ) from error
    begins = file.value("tokenizer.ggml.pre") in _BEGINNING
    if begins and file.value("tokenizer.ggml.add_bos_token") is None:
        found.add_bos_token = True
    return found
