"""A GGUF file as a checkpoint: what is in it, and whether it can be exported."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

from aoti_plugins.language.architecture import check_architecture
from aoti_plugins.language.checkpoint import Checkpoint, check_vocabulary
from aoti_plugins.language.gguf.configuration import configuration_of, end_tokens
from aoti_plugins.language.gguf.file import GgufFile
from aoti_plugins.language.gguf.tensors import placed
from aoti_plugins.language.gguf.tokenizer import write_tokenizer


class GgufCheckpoint(Checkpoint):
    """A language model in a GGUF file.

    Opening it reads the metadata, and finds what cannot be exported before a weight is read.

    Args:
        path: the file.

    Raises:
        CheckpointError: something is missing, damaged or of a kind that cannot be exported.

    Attributes:
        config: of transformers.
        chat_template: as ``Checkpoint`` has it.
        tokenizer_path: a file that is there as long as this object.
    """

    def __init__(self, path: Path) -> None:
        self._file = GgufFile(path)
        self.is_quantized = self._file.is_quantized
        self.preprocessor = None
        self.config = configuration_of(self._file)
        check_architecture(path, self.config)
        placed(self._file, self.outline())
        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.tokenizer_path = Path(folder, "tokenizer.json")
        self.chat_template = write_tokenizer(self._file, self.tokenizer_path)
        check_vocabulary(self.tokenizer_path, self.config)

    def load(self, dtype: str) -> Any:
        """Read the model on the CPU, with weights of few bits as the file has them.

        Args:
            dtype: ``"float32"``, ``"bfloat16"`` or ``"float16"``, of what is not of few bits and of
                activations; or ``"auto"`` for the file's, which is bfloat16 where it is quantised.
        """
        import torch

        from aoti_plugins.language.gguf.weights import read_model

        name = self._file.dtype if dtype == "auto" else dtype
        model = read_model(self._file, self.config, getattr(torch, name))
        model.generation_config.eos_token_id = end_tokens(self._file) or None
        model.generation_config.bos_token_id = self._file.value("tokenizer.ggml.bos_token_id")
        return model.eval().requires_grad_(False)
