"""Programs that choose tokens by themselves choose those that the host chooses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from test_cpp_generate import PROMPTS, SAMPLINGS
from tiny_checkpoints import MAX_LENGTH

from aoti_plugins import CudaPartitioner, MpsPartitioner, language
from aoti_plugins.cli._pte import inspect_program
from aoti_plugins.cli.app import app
from aoti_plugins.errors import ProgramError
from aoti_plugins.generation import Sampling, TextGenerator
from aoti_plugins.generation.cached_model import CachedModel
from aoti_plugins.generation.sampling import choose
from aoti_plugins.runtime import Method

MORE = [
    Sampling(temperature=1.0, top_k=1, seed=4),
    Sampling(temperature=1.0, top_k=5000, top_p=0.5, seed=5),
    Sampling(temperature=0.01, seed=6),
    Sampling(temperature=3.0, min_p=1.0, seed=7),
    *(Sampling(temperature=1 + i / 10, top_k=50, top_p=0.95, seed=i) for i in range(8)),
]
OPTIONS = ("none", "--sample-on-device", "--method-style", "prefill-decode")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


@pytest.fixture
def program(exported: Callable[..., Path]) -> Path:
    return exported("llama_tied", *OPTIONS)


def test_tokens_are_those_of_the_host(program: Path) -> None:
    with TextGenerator(program) as device, TextGenerator(program, on_device=False) as host:
        for sampling in (*SAMPLINGS, *MORE):
            for prompt in PROMPTS:
                expected = list(host.tokens(prompt, sampling))
                assert list(device.tokens(prompt, sampling)) == expected, sampling


def test_no_logits_are_given(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TextGenerator, "_choose", None)  # what chooses on the host
    with TextGenerator(program) as device:
        tokens = list(device.tokens(PROMPTS[0], Sampling(temperature=1.0, seed=1)))
        assert len(tokens) == MAX_LENGTH - len(PROMPTS[0])
        assert device.tokens_in_cache == [*PROMPTS[0], *tokens[:-1]]


def test_sessions(program: Path) -> None:
    with TextGenerator(program) as device:
        sampling = Sampling(temperature=1.0, repetition_penalty=1.2, seed=3)
        alone = [list(device.tokens(one, sampling, 20)) for one in PROMPTS]
        sessions = [device.session() for _ in PROMPTS]
        streams = [
            one.tokens(prompt, sampling, 20) for one, prompt in zip(sessions, PROMPTS, strict=True)
        ]
        in_turns = list(zip(*streams, strict=True))
        assert [list(tokens) for tokens in zip(*in_turns, strict=True)] == alone


@pytest.fixture(scope="module")
def methods(checkpoints: Callable[[str], Path]) -> dict[str, Any]:
    model = language.Checkpoint(checkpoints("llama_tied")).load("float32")
    return language.export_decoder(model, 24, sampling_dtype=torch.float64)


def test_several_tokens_in_a_call(methods: dict[str, Any]) -> None:
    tokens = [*PROMPTS[0], *PROMPTS[0]]
    read = torch.tensor([tokens]), torch.arange(len(tokens))
    logits = methods["forward"].module()(*read)[0, 0].numpy()
    seen = torch.tensor(tokens)  # with repetitions
    for sampling in (*SAMPLINGS, *MORE):
        random = np.random.default_rng(sampling.seed)
        expected = choose(logits, tokens, sampling, np.random.default_rng(sampling.seed))
        if sampling.temperature == 0:
            name, last = "likeliest", torch.tensor([sampling.repetition_penalty])
        else:
            given = sampling.repetition_penalty, sampling.temperature, sampling.top_k
            limits = sampling.top_p, sampling.min_p, random.random()
            name, last = "sample", torch.tensor([*given, *limits], dtype=torch.float64)
        assert methods[name].module()(*read, seen, last).tolist() == [expected], sampling


def test_gpus_take_it_whole(methods: dict[str, Any], checkpoints: Callable[[str], Path]) -> None:
    assert CudaPartitioner(target="h100").plan(methods["sample"]).is_whole
    model = language.Checkpoint(checkpoints("llama_tied")).load("float16")
    narrow = language.export_decoder(model, 24, sampling_dtype=torch.float32)
    assert MpsPartitioner().plan(narrow["sample"]).is_whole


def test_state_and_result_are_apart(program: Path) -> None:
    (found,) = [one for one in inspect_program(program)["methods"] if one["name"] == "sample"]
    assert len(found["delegates"]) == 1
    assert found["operators"] == []  # else the token is copied outside, and calls are not begun


def test_a_negative_token_is_the_one_chosen_last(methods: dict[str, Any]) -> None:
    for name, settings in (("likeliest", [1.0]), ("sample", [1, 0.9, 40, 0.9, 0, 0.7])):
        module = methods[name].module()
        dtype = torch.float64 if name == "sample" else torch.float32
        last = torch.tensor(settings, dtype=dtype)
        first = module(torch.tensor([[5, 6]]), torch.arange(2), torch.tensor([6]), last)
        known = module(first[None], torch.tensor([2]), first, last)
        module(torch.tensor([[5, 6]]), torch.arange(2), torch.tensor([6]), last)
        unknown = torch.tensor([-1])
        assert module(unknown[None], torch.tensor([2]), unknown, last).equal(known)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Methods that begin calls, as on a GPU: names of those that were begun."""
    names: list[str] = []
    results: dict[Method, deque[Any]] = {}

    def begin(self: Method, *inputs: Any) -> None:
        assert len(results.setdefault(self, deque())) < 2
        names.append(self.name)
        results[self].append(self(*inputs))

    def finish(self: Method, *, copy: bool = True) -> Any:
        return results[self].popleft()

    monkeypatch.setattr(Method, "can_begin", True)
    monkeypatch.setattr(Method, "begin", begin)
    monkeypatch.setattr(Method, "finish", finish)
    return names


def test_a_call_is_ahead_of_the_tokens_that_are_known(program: Path, begun: list[str]) -> None:
    with TextGenerator(program) as device, TextGenerator(program, on_device=False) as host:
        for sampling in (*SAMPLINGS, *MORE):
            expected = [list(host.tokens(prompt, sampling, 12)) for prompt in PROMPTS]
            before = len(begun)
            found = [list(device.tokens(prompt, sampling, 12)) for prompt in PROMPTS]
            assert found == expected, sampling
            is_fair = sampling.repetition_penalty == 1  # else the host says what was there
            assert len(begun) - before == (12 * len(PROMPTS) if is_fair else 0)


def test_answers_that_are_left_take_nothing_with_them(program: Path, begun: list[str]) -> None:
    sampling = Sampling(temperature=1.0, seed=3)
    with TextGenerator(program) as device, TextGenerator(program, on_device=False) as host:
        prompt = PROMPTS[0]
        expected = list(host.tokens(prompt, sampling, 9))
        for count in range(1, 6):
            answer = device.tokens(prompt, sampling, 9)
            assert [next(answer) for _ in range(count)] == expected[:count]
            assert device.tokens_in_cache == [*prompt, *expected[:count]]
            # Another answer on this cache, of other random numbers, or none.
            other = Sampling(temperature=1.0, seed=count) if count % 2 else Sampling()
            text = [*prompt, *expected[:count]]
            assert list(device.tokens(text, other, 4)) == list(host.tokens(text, other, 4))
        assert list(device.tokens(prompt, sampling, 9)) == expected
        longest = device.tokens(prompt, sampling)
        assert len(list(longest)) == MAX_LENGTH - len(prompt)  # not a call behind the cache's end
        assert "sample" in begun


@pytest.mark.parametrize("failing", ["begin", "finish"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_after_a_failure_nothing_is_left_over(
    failing: str, nth: int, program: Path, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = Sampling(temperature=1.0, seed=3)
    works, calls = getattr(Method, failing), 0

    def fails_once(self: Method, *inputs: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if failing == "begin" and calls == nth:
            raise ProgramError("for the test")
        result = works(self, *inputs, **options)
        if calls == nth:  # a call that fails to finish is over all the same
            raise ProgramError("for the test")
        return result

    with TextGenerator(program) as device, TextGenerator(program, on_device=False) as host:
        prompt = PROMPTS[0]
        expected = list(host.tokens(prompt, sampling, 9))
        with monkeypatch.context() as patch:
            patch.setattr(Method, failing, fails_once)
            with pytest.raises(ProgramError, match="for the test"):
                list(device.tokens(prompt, sampling, 9))
        assert device.tokens_in_cache == ()
        for _ in range(2):
            assert list(device.tokens(prompt, sampling, 9)) == expected


def test_other_programs_do_not_choose(
    exported: Callable[..., Path], checkpoints: Callable[[str], Path], tmp_path: Path
) -> None:
    with TextGenerator(exported("llama")) as generator:
        assert not generator._model.chooses
        assert isinstance(generator._model, CachedModel)
        assert generator.generate("1", max_new_tokens=2)
    arguments = ["export", str(checkpoints("whisper")), "-o", str(tmp_path / "out.pte")]
    done = CliRunner().invoke(app, [*arguments, "--sample-on-device"])
    assert done.exit_code == 1
    assert "--sample-on-device is for text" in done.stderr
