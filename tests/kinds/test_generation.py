"""A decoder generates text: one method reads the prompt, the other one gives token after token."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from filelock import FileLock
from support import load_example
from torch.export import Dim, export

from aoti_plugins import CpuPartitioner
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Method, Program

VOCABULARY, WIDTH, CAPACITY, NEW_TOKENS = 8192, 256, 96, 64
PROMPT = [17, 4000, 5, 333, 8191, 0, 42]


def decoder() -> torch.nn.Module:
    """A fresh decoder with empty caches and always the same weights."""
    torch.manual_seed(0)
    make = load_example("models").CachedDecoder
    model = make(VOCABULARY, WIDTH, heads=4, kv_heads=2, layers=2, capacity=CAPACITY)
    return model.eval()


def inputs(tokens: list[int], start: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens ``[1, n]`` and their positions ``[n]``."""
    return torch.tensor([tokens]), torch.arange(start, start + len(tokens))


@pytest.fixture(scope="module")
def generator(shared_dir: Path) -> Path:
    """A program with ``prefill`` (1 to 16 tokens) and ``decode`` (one)."""
    path = shared_dir / "generator.pte"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            model = decoder()
            length = Dim("length", min=1, max=16)
            programs = {
                "prefill": export(
                    model, inputs([1, 2, 3], 0), dynamic_shapes=({1: length}, {0: length})
                ),
                "decode": export(model, inputs([1], 3)),
            }
            lowered = to_edge_transform_and_lower(programs, partitioner=[CpuPartitioner()])
            path.write_bytes(lowered.to_executorch().buffer)
    return path


Step = Callable[[list[int], int], torch.Tensor]


def generate(prefill: Step, decode: Step) -> list[int]:
    """The most likely tokens after the prompt. A step takes tokens and where they begin."""
    tokens = list(PROMPT)
    logits = prefill(tokens, 0)
    for _ in range(NEW_TOKENS):
        tokens.append(int(logits[0, -1].argmax()))
        logits = decode(tokens[-1:], len(tokens) - 1)
    return tokens[len(PROMPT) :]


def step_of(method: Method) -> Step:
    return lambda tokens, start: method(*inputs(tokens, start))[0]


@pytest.fixture(scope="module")
def eager_tokens() -> list[int]:
    model = decoder()
    with torch.no_grad():
        return generate(*2 * [lambda tokens, start: model(*inputs(tokens, start))])


def test_64_tokens_are_eagers(generator: Path, eager_tokens: list[int]) -> None:
    assert len(set(eager_tokens)) > NEW_TOKENS // 4  # not one token over and over
    with Program(generator) as program:
        prefill = program.method("prefill")
        decode = program.method("decode")
        assert generate(step_of(prefill), step_of(decode)) == eager_tokens
        assert generate(step_of(prefill), step_of(decode)) == eager_tokens  # over the old caches


def test_one_dynamic_method_reads_the_prompt_and_generates(
    generator: Path, eager_tokens: list[int]
) -> None:
    """Its length is 7 in the first call and 1 in all others."""
    with Program(generator) as program:
        both = step_of(program.method("prefill"))
        assert generate(both, both) == eager_tokens


def test_two_conversations_at_once(generator: Path, eager_tokens: list[int]) -> None:
    """State belongs to the methods that share it, whichever was loaded first, not to a program."""
    with Program(generator) as program:
        decode = program.method("decode")
        prefill = program.method("prefill", share_state=decode)
        other = program.method("prefill")
        for tokens in ([9, 9, 9, 9], [1, 2]):
            other(*inputs(tokens, 0))

        def prefill_among_others(tokens: list[int], start: int) -> torch.Tensor:
            logits = prefill(*inputs(tokens, start))[0]
            other(*inputs([7, 8, 9], 0))
            return logits

        assert generate(prefill_among_others, step_of(decode)) == eager_tokens


def test_a_method_has_its_own_caches_when_told(generator: Path) -> None:
    model, fresh = decoder(), decoder()
    with Program(generator) as program, torch.no_grad():
        prefill = program.method("prefill")
        prefill(*inputs(PROMPT, 0))
        alone = program.method("decode", share_state=False)
        found = alone(*inputs([3], len(PROMPT)))[0]
        torch.testing.assert_close(found, fresh(*inputs([3], len(PROMPT))), rtol=1e-3, atol=1e-4)
        model(*inputs(PROMPT, 0))
        assert not torch.allclose(found, model(*inputs([3], len(PROMPT))), atol=1e-2)


def test_caches_outlive_the_method_that_was_first(generator: Path, eager_tokens: list[int]) -> None:
    with Program(generator) as program:
        prefill = program.method("prefill")
        decode = program.method("decode", share_state=prefill)

        def prefill_and_close(tokens: list[int], start: int) -> torch.Tensor:
            logits = prefill(*inputs(tokens, start))[0]
            prefill.close()
            return logits

        assert generate(prefill_and_close, step_of(decode)) == eager_tokens
        with pytest.raises(ProgramError, match="method 'prefill', whose state it shares, is clo"):
            program.method("decode", share_state=prefill)


def test_the_length_has_a_bound(generator: Path) -> None:
    with Program(generator) as program:
        prefill = program.method("prefill")
        with pytest.raises(ProgramError, match="at most 16 in dimension 1"):
            prefill(*inputs(list(range(17)), 0))
        with pytest.raises(ProgramError, match="size 0 in dim 1, expected 1 to 16"):
            prefill(torch.zeros(1, 0, dtype=torch.int64), torch.arange(0))


def test_the_file_has_the_weights_once(generator: Path) -> None:
    weights = sum(p.nbytes for p in decoder().parameters())
    assert weights > 16e6
    assert weights < generator.stat().st_size < weights + 2e6


def test_memory_has_the_weights_once(generator: Path, run_python: Callable[..., str]) -> None:
    """Before and after both methods have touched all weights, in a process without torch."""
    printed = run_python(
        """
        import json, sys
        import numpy
        from aoti_plugins.runtime import Program

        def resident():
            with open("/proc/self/status") as status:
                (line,) = [line for line in status if line.startswith("VmRSS")]
            return int(line.split()[1]) * 1024

        program = Program(sys.argv[1])
        before = resident()
        prefill = program.method("prefill")
        decode = program.method("decode", share_state=prefill)
        one = prefill(numpy.arange(0, 16).reshape(1, 16), numpy.arange(16))
        after_one = resident()
        decode(numpy.array([[7]]), numpy.array([16]))
        print(json.dumps([before, after_one, resident()]))
        """,
        generator,
    )
    before, after_one, after_both = json.loads(printed.splitlines()[-1])
    weights = sum(p.nbytes for p in decoder().parameters())
    assert after_both - before < 1.5 * weights
    assert after_both - after_one < 0.2 * weights


def test_caches_as_inputs_and_outputs() -> None:
    """What works with every runtime: the caller keeps the state."""

    class Step(torch.nn.Module):
        """One attention step over a cache ``[1, 8, 4]`` that comes and goes."""

        def forward(
            self, x: torch.Tensor, position: torch.Tensor, cache: torch.Tensor
        ) -> tuple[torch.Tensor, torch.Tensor]:
            cache = cache.index_copy(1, position, x)
            scores = (x @ cache.transpose(1, 2)).masked_fill(
                torch.arange(8) > position[:, None], float("-inf")
            )
            return torch.softmax(scores, -1) @ cache, cache

    def example(positions: list[int]) -> tuple[Any, ...]:
        generator = torch.Generator().manual_seed(len(positions))
        x = torch.randn(1, len(positions), 4, generator=generator)
        return x, torch.tensor(positions), torch.zeros(1, 8, 4)

    length = Dim("length", max=4)
    shapes = ({1: length}, {0: length}, None)
    programs = {
        "prefill": export(Step(), example([0, 1, 2]), dynamic_shapes=shapes),
        "decode": export(Step(), example([3])),
    }
    lowered = to_edge_transform_and_lower(programs, partitioner=[CpuPartitioner()])
    with Program(bytes(lowered.to_executorch().buffer)) as program:
        eager, expected_cache = Step(), torch.zeros(1, 8, 4)
        cache = copy.deepcopy(expected_cache)
        for name, positions in (("prefill", [0, 1]), ("prefill", [2]), ("decode", [3])):
            x, where, _ = example(positions)
            expected, expected_cache = eager(x, where, expected_cache)
            found, cache = program.method(name)(x, where, cache)
            torch.testing.assert_close(found, expected)
            torch.testing.assert_close(cache, expected_cache)
