"""The example that trains a model to chat with, cut short; ``make chat`` is the whole of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tiny_checkpoints import GROUP, greedy_tokens

from aoti_plugins.cli.app import app
from aoti_plugins.generation import ChatTemplate, TextGenerator, chat_template_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat" / "train.py"
QUESTION = "What is 3 + 5?"

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


def trained(folder: Path, *options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, EXAMPLE, folder, "--steps", 20, *options]
    return subprocess.run(
        [str(one) for one in command], capture_output=True, text=True, check=False, timeout=600
    )


def test_the_trained_model_becomes_a_program_to_chat_with(tmp_path: Path) -> None:
    folder, path = tmp_path / "checkpoint", tmp_path / "chat.pte"
    done = trained(folder, "--least", 0)
    assert done.returncode == 0, done.stderr
    assert "that it never saw" in done.stderr
    how = ("-o", path, "--quantize", "int4", "--group-size", GROUP, "--max-length", 64)
    exported = CliRunner().invoke(app, [str(one) for one in ("export", folder, *how)])
    assert exported.exit_code == 0, exported.output
    template = ChatTemplate.read(chat_template_of(path))
    prompt = template.render([{"role": "user", "content": QUESTION}])
    with TextGenerator(path) as generator:
        tokens = generator.tokenizer.encode(prompt).ids
        assert tokens[0] == generator.tokenizer.token_to_id("<|user|>")
        found = list(generator.tokens(tokens, max_new_tokens=12))
    assert found == greedy_tokens(folder, tokens, 12, "int4")[: len(found)]
    asked = CliRunner().invoke(app, ["chat", str(path), "--max-new-tokens", "12"], input=QUESTION)
    assert asked.exit_code == 0, asked.output


def test_a_model_that_learned_too_little_is_an_error(tmp_path: Path) -> None:
    done = trained(tmp_path, "--least", 1)
    assert done.returncode == 1
    assert "That is too little; try more --steps." in done.stderr
