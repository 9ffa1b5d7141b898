"""Tiny checkpoints and their programs, made once per run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from filelock import FileLock
from tiny_checkpoints import GROUP, MAX_LENGTH, write_checkpoint
from tiny_speech import write_speech_checkpoint

from aoti_plugins.cli.app import app
from aoti_plugins.generation import TextGenerator


@pytest.fixture(scope="module")
def checkpoints(shared_dir: Path) -> Callable[[str], Path]:
    """``checkpoints("llama")`` or ``("whisper")`` is a folder, written once per run."""

    def written(kind: str) -> Path:
        folder = shared_dir / f"checkpoint_{kind}"
        with FileLock(f"{folder}.lock"):
            if not folder.exists():
                folder.mkdir()
                if kind == "whisper":
                    write_speech_checkpoint(folder)
                else:
                    write_checkpoint(folder, kind)
        return folder

    return written


@pytest.fixture(scope="module")
def exported(shared_dir: Path, checkpoints: Callable[[str], Path]) -> Callable[..., Path]:
    """``exported("llama", "int8")`` is the program that the command line made, once per run.

    More options of the command may follow.
    """

    def program(kind: str, quantize: str = "none", *more: object) -> Path:
        parts = (one.name if isinstance(one, Path) else str(one) for one in more)
        name = "_".join(one.strip("-") for one in (kind, quantize, *parts))
        path = shared_dir / f"language_{name}.pte"
        with FileLock(f"{path}.lock"):
            if not path.exists():
                where = ("export", checkpoints(kind), "-o", path)
                how = ("--max-length", MAX_LENGTH, "--quantize", quantize, "--group-size", GROUP)
                done = CliRunner().invoke(app, [str(one) for one in (*where, *how, *more)])
                assert done.exit_code == 0, done.output
        return path

    return program


@pytest.fixture
def llama(exported: Callable[..., Path]) -> Iterator[TextGenerator]:
    with TextGenerator(exported("llama")) as generator:
        yield generator
