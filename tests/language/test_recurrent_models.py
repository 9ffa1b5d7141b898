"""State-space models: any blocks of tokens give what transformers gives, and a state is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from tiny_checkpoints import config, greedy_tokens

from aoti_plugins.cli.app import app
from aoti_plugins.generation import TextGenerator
from aoti_plugins.language.recurrent import BLOCK, RecurrentDecoder
from aoti_plugins.language.scan import scan

PROMPT = [7 * i % 90 for i in range(BLOCK + 9)]

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


@pytest.fixture
def mamba(exported: Callable[..., Path]) -> Iterator[TextGenerator]:
    with TextGenerator(exported("mamba", "int4")) as generator:
        yield generator


@pytest.mark.parametrize("length", [0, 1, 2, 7, 8])
def test_a_scan_is_a_loop(length: int) -> None:
    factors, terms, state = torch.rand(length, 2, 3), torch.randn(length, 2, 3), torch.randn(2, 3)
    found = scan(factors, terms, state, 8)
    assert found.shape == terms.shape
    for step in range(length):
        state = factors[step] * state + terms[step]
        torch.testing.assert_close(found[step], state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", ["mamba", "falcon_mamba"])
def test_any_blocks_give_the_same(kind: str, dtype: torch.dtype) -> None:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config(kind)).to(dtype).eval()
    tokens = torch.tensor([PROMPT])
    with torch.no_grad():
        expected = model(tokens).logits
        decoder = RecurrentDecoder(model)
        for blocks in ([BLOCK, 1, 5, 2, 1], [1] * 20, [3, 17]):
            end = 0
            for length in blocks:
                here = torch.arange(end, end + length)
                found, end = decoder(tokens[:, here], here), end + length
                close = {} if dtype == torch.float32 else {"atol": 0.1, "rtol": 0.1}
                torch.testing.assert_close(found[0, 0], expected[0, end - 1].float(), **close)


def test_a_long_prompt_takes_several_calls(
    mamba: TextGenerator, checkpoints: Callable[[str], Path]
) -> None:
    expected = greedy_tokens(checkpoints("mamba"), PROMPT, 16, "int4")
    assert list(mamba.tokens(PROMPT, max_new_tokens=16)) == expected


def test_only_what_begins_with_the_whole_text_goes_on(mamba: TextGenerator) -> None:
    first = PROMPT[:20]
    answer = list(mamba.tokens(first, max_new_tokens=8))
    longer = [*first, *answer, 5, 6]
    found = list(mamba.tokens(longer, max_new_tokens=8))
    assert mamba.statistics.cached_tokens == len(first) + len(answer) - 1
    assert list(mamba.tokens(first, max_new_tokens=8)) == answer
    assert mamba.statistics.cached_tokens == 0
    assert list(mamba.tokens(first, max_new_tokens=1)) == answer[:1]
    assert list(mamba.tokens(first, max_new_tokens=8)) == answer  # its last token is needed anew
    assert mamba.statistics.cached_tokens == 0
    with mamba.session() as session:
        assert list(session.tokens(longer, max_new_tokens=8)) == found


def test_a_state_cannot_check_guesses(checkpoints: Callable[[str], Path], tmp_path: Path) -> None:
    where = ["export", str(checkpoints("mamba")), "-o", str(tmp_path / "mamba.pte")]
    done = CliRunner().invoke(app, [*where, "--speculate", "4"])
    assert done.exit_code == 1
    assert "'mamba' cannot speculate: its state stands for all tokens" in done.output
