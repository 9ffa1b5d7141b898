"""Tokens per second with and without guessed tokens, on text that repeats itself.

A Llama with random weights, whose head is its embedding so that it says one token over and over, is
exported twice by the command line, with ``--speculate`` and without; both generate the same tokens.

    python benchmarks/speculation.py --quantize int8 --output benchmarks/results/speculation.json
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import environment

from aoti_plugins.generation import TextGenerator

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]


def write_checkpoint(folder: Path, width: int, layers: int, vocabulary: int) -> None:
    """Write a Llama with random weights, and a tokenizer of as many words."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        num_key_value_heads=width // 256,
        vocab_size=vocabulary,
        eos_token_id=None,
        tie_word_embeddings=True,
    )
    transformers.LlamaForCausalLM(config).bfloat16().save_pretrained(folder)
    words = {f"w{index}": index for index in range(vocabulary)}
    Tokenizer(models.WordLevel(words, unk_token="w0")).save(str(folder / "tokenizer.json"))


def export(checkpoint: Path, output: Path, options: list[str]) -> None:
    """Export it as a user does."""
    command = [sys.executable, "-m", "aoti_plugins", "export", str(checkpoint), "-o", str(output)]
    subprocess.run([*command, "--max-length", "1024", *options], check=True)


def measure(program: Path, speculate: bool, rounds: int, count: int) -> dict[str, Any]:
    """Generate some times; the best of them."""
    with TextGenerator(program, speculate=speculate) as generator:
        found = []
        for _ in range(rounds):
            tokens = list(generator.tokens(PROMPT, max_new_tokens=count))
            found.append(generator.statistics)
    best = max(found, key=lambda one: one.tokens_per_s)
    return {**vars(best), "tokens_per_s": best.tokens_per_s, "tokens": tokens}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--target")
    parser.add_argument("--quantize", default="int8")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--method-style", default="forward")
    parser.add_argument("--speculate", type=int, default=7)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    how = ["--device", options.device, "--quantize", options.quantize, "--dtype", options.dtype]
    how += ["--method-style", options.method_style]
    how += ["--target", options.target] if options.target else []
    with tempfile.TemporaryDirectory() as folder:
        checkpoint, guessing, plain = (Path(folder) / name for name in ("model", "g.pte", "p.pte"))
        write_checkpoint(checkpoint, options.width, options.layers, options.vocabulary)
        export(checkpoint, guessing, [*how, "--speculate", str(options.speculate)])
        export(checkpoint, plain, how)
        rows = {
            name: measure(program, name == "with guesses", options.rounds, options.count)
            for name, program in (("without", plain), ("with guesses", guessing))
        }
    tokens = [row.pop("tokens") for row in rows.values()]
    report = {
        "options": {name: str(value) for name, value in vars(options).items() if name != "output"},
        "same_tokens": tokens[0] == tokens[1],
        "speedup": rows["with guesses"]["tokens_per_s"] / rows["without"]["tokens_per_s"],
        **rows,
    }
    print(json.dumps(report, indent=2))
    if options.output:
        environment.save(options.output, report)


if __name__ == "__main__":
    main()
