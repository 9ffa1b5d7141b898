"""``examples/cpp_generate`` and the C functions of generation choose the tokens of Python."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_checkpoints import END, MAX_LENGTH

from aoti_plugins.generation import Sampling, TextGenerator

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PROMPTS = [[72, 69, 76, 76, 79], [11, 12, 11], [40]]
SAMPLINGS = [
    Sampling(),
    Sampling(repetition_penalty=1.3),
    Sampling(temperature=0.7, seed=0),
    Sampling(temperature=1.2, top_k=12, seed=3),
    Sampling(temperature=1.4, top_p=0.8, repetition_penalty=1.1, seed=2**32 + 5),
    Sampling(temperature=2.0, min_p=0.05, seed=2**64 - 1),
    Sampling(temperature=0.9, top_k=30, top_p=0.9, min_p=0.01, repetition_penalty=0.8, seed=77),
]


def options_of(sampling: Sampling) -> list[str]:
    given = {name: value for name, value in vars(sampling).items() if value is not None}
    return [
        text
        for name, value in given.items()
        for text in (f"--{name.replace('_', '-')}", str(value))
    ]


def run(binary: Path, program: Path, *more: object) -> subprocess.CompletedProcess[str]:
    command = [str(one) for one in (binary, program, *more)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def texts(tokens: list[list[int]]) -> list[str]:
    return [" ".join(map(str, one)) for one in tokens]


def answers(binary: Path, program: Path, *more: object) -> list[list[int]]:
    done = run(binary, program, *more)
    assert done.returncode == 0, done.stderr
    return [[int(token) for token in line.split()] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=str)
def test_sessions_in_turns_choose_pythons_tokens(
    cpp_generate: Path, llama: TextGenerator, exported: Callable[..., Path], sampling: Sampling
) -> None:
    expected = [list(llama.tokens(one, sampling, 40)) for one in PROMPTS]
    assert len({tuple(one) for one in expected}) == len(PROMPTS)
    more = (*texts(PROMPTS), *options_of(sampling), "--max-new-tokens", 40)
    assert answers(cpp_generate, exported("llama"), *more) == expected


def test_one_session_fills_the_cache_and_ends(
    cpp_generate: Path, llama: TextGenerator, exported: Callable[..., Path]
) -> None:
    expected = list(llama.tokens(PROMPTS[0]))
    assert len(expected) == MAX_LENGTH - len(PROMPTS[0])
    more = (texts(PROMPTS)[0], "--max-new-tokens", 1000)
    assert answers(cpp_generate, exported("llama"), *more) == [expected]


def test_an_end_token_ends_an_answer(
    cpp_generate: Path, llama: TextGenerator, exported: Callable[..., Path]
) -> None:
    sampling = Sampling(temperature=20.0, seed=5)  # all tokens are about as likely
    expected = list(llama.tokens(PROMPTS[0], sampling))
    ends = [seed for seed in range(20) if _ends(llama, seed)]
    assert ends, expected
    sampling = Sampling(temperature=20.0, seed=ends[0])
    expected = list(llama.tokens(PROMPTS[0], sampling))
    assert expected[-1] == END
    more = (texts(PROMPTS)[0], *options_of(sampling), "--max-new-tokens", 1000)
    assert answers(cpp_generate, exported("llama"), *more) == [expected]


def _ends(llama: TextGenerator, seed: int) -> bool:
    list(llama.tokens(PROMPTS[0], Sampling(temperature=20.0, seed=seed)))
    return llama.statistics.reason == "end"


def test_prefill_and_decode(cpp_generate: Path, exported: Callable[..., Path]) -> None:
    program = exported("llama", "none", "--method-style", "prefill-decode", "--speculate", 6)
    with TextGenerator(program) as generator:
        expected = [list(generator.tokens(one, max_new_tokens=40)) for one in PROMPTS]
    more = (*texts(PROMPTS), "--max-new-tokens", 40)
    assert answers(cpp_generate, program, *more) == expected


def test_a_state_that_cannot_be_cut(cpp_generate: Path, exported: Callable[..., Path]) -> None:
    program = exported("mamba", "int4")
    long = [[*list(range(30, 94)), 40, 50, 60]]  # more than a call takes
    with TextGenerator(program) as generator:
        expected = [list(generator.tokens(one, max_new_tokens=12)) for one in (*PROMPTS, *long)]
    more = (*texts(PROMPTS), *texts(long), "--max-new-tokens", 12)
    assert answers(cpp_generate, program, *more) == expected


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("",), "the prompt has no tokens; give at least one"),
        (("72 9999",), "token 9999 of the prompt is none of the program's 264"),
        (("-1",), "token -1 of the prompt"),
        ((" ".join(["7"] * MAX_LENGTH),), f"together can have at most {MAX_LENGTH}"),
        (("72", "--temperature", "-1"), "temperature is -1, expected 0 or more"),
        (("72", "--temperature", "nan"), "temperature is nan, expected 0 or more"),
        (("72", "--top-k", "-1"), "top_k is -1, expected 0 or more"),
        (("72", "--top-p", "0"), "top_p is 0, expected over 0 and at most 1"),
        (("72", "--min-p", "1.5"), "min_p is 1.5, expected 0 to 1"),
        (("72", "--repetition-penalty", "0"), "repetition_penalty is 0, expected over 0"),
        (("72 x",), "is no list of tokens"),
        (("72", "--adapter", "/dev/null"), "takes no adapters; export it with --lora-rank"),
    ],
)
def test_what_is_refused(
    cpp_generate: Path, exported: Callable[..., Path], more: tuple[str, ...], message: str
) -> None:
    done = run(cpp_generate, exported("llama"), *more)
    assert done.returncode == 1
    assert message in done.stderr


def test_programs_that_are_no_language_models(
    cpp_generate: Path,
    lowered_programs: Callable[[str], Path],
    exported: Callable[..., Path],
    tmp_path: Path,
) -> None:
    done = run(cpp_generate, lowered_programs("mlp"), "72")
    assert done.returncode == 1
    assert "has no method 'get_max_seq_len', so it is no language model" in done.stderr
    cut = tmp_path / "cut.pte"
    cut.write_bytes(exported("llama").read_bytes()[:-4000])
    done = run(cpp_generate, cut, "72")
    assert done.returncode == 1
    assert "cut.pte" in done.stderr
