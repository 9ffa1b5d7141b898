"""ExecuTorch's own runner for language models, as its wheel has it, on programs for the CPU.

It gives a load no options, so all that it needs has to be in the program.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support import needs_executorchs_extension
from tiny_llama import generate, write_tokenizer

pytestmark = needs_executorchs_extension

GENERATE = """
import sys
from aoti_plugins.runtime import register; register()
from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner
program, tokenizer, count, *prompts = sys.argv[1:]
config = GenerationConfig(echo=False, temperature=0.0, max_new_tokens=int(count))
runners = [TextLLMRunner(program, tokenizer) for _ in prompts]
for runner, prompt in zip(runners, prompts, strict=True):
    text = []
    runner.generate(prompt, config, text.append)
    print("generated", prompt, "".join(text))
"""


@pytest.mark.parametrize(
    "methods", [{"prefill": 24, "decode": 1}, {"forward": 24}], ids=lambda m: " and ".join(m)
)
def test_the_stock_text_runner_generates_what_eager_does(
    lowered_llamas: Callable[..., Path],
    run_python: Callable[..., str],
    tmp_path: Path,
    methods: dict[str, int],
) -> None:
    """Two runners on one program: each has its own caches, and its methods have them together."""
    prompts, count = ("hello1", "Zq"), 16
    printed = run_python(
        GENERATE, lowered_llamas(**methods), write_tokenizer(tmp_path), count, *prompts
    )
    for prompt in prompts:
        assert f"generated {prompt} {generate(prompt, count)}\n" in printed
