"""From a checkpoint of transformers to tokens: the same as transformers generates itself."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support import needs_executorchs_extension, weights_nbytes
from tiny_checkpoints import GROUP, MAX_LENGTH, config, greedy_tokens, tokens_of, write_tokenizer

from aoti_plugins.cli.app import app
from aoti_plugins.errors import CheckpointError, ProgramError
from aoti_plugins.generation import Sampling, TextGenerator, tokenizer_of

PROMPT, COUNT = "Hello, 1", 64

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


def aoti(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def test_what_is_in_the_cache_is_not_read_again(
    exported: Callable[..., Path], llama: TextGenerator
) -> None:
    first = list(llama.tokenizer.encode(PROMPT).ids)
    answer = list(llama.tokens(first, max_new_tokens=8))
    assert llama.statistics.cached_tokens == 0
    longer = [*first, *answer, *first]
    expected_cached = len(first) + len(answer) - 1  # the last token was never read
    found = list(llama.tokens(longer, max_new_tokens=8))
    assert llama.statistics.cached_tokens == expected_cached
    assert list(llama.tokens(first, max_new_tokens=8)) == answer
    assert llama.statistics.cached_tokens == len(first) - 1
    other = [first[0] + 1, *first[1:]]
    begun = list(llama.tokens(other, max_new_tokens=8))
    assert llama.statistics.cached_tokens == 0
    with TextGenerator(exported("llama")) as fresh:
        assert list(fresh.tokens(longer, max_new_tokens=8)) == found
    with TextGenerator(exported("llama")) as fresh:
        assert list(fresh.tokens(other, max_new_tokens=8)) == begun


def test_sessions_do_not_disturb_each_other(llama: TextGenerator) -> None:
    prompts = ["Hello, 1", "2 + 2 =", "Good"]
    alone = [llama.generate(prompt, max_new_tokens=12) for prompt in prompts]
    sessions = [llama.session() for _ in prompts]
    streams = [
        session.tokens(llama.tokenizer.encode(prompt).ids, max_new_tokens=12)
        for session, prompt in zip(sessions, prompts, strict=True)
    ]
    in_turns = list(zip(*streams, strict=True))
    texts = [llama.tokenizer.decode(tokens) for tokens in zip(*in_turns, strict=True)]
    assert texts == alone
    sessions[0].close()
    assert sessions[1].generate(prompts[1], max_new_tokens=12) == alone[1]


def test_a_second_answer_ends_the_first(llama: TextGenerator) -> None:
    first = llama.stream("Hello", max_new_tokens=20)
    next(first)
    second = llama.generate("Good", max_new_tokens=4)
    with pytest.raises(ProgramError, match="another answer began on this generator"):
        list(first)
    assert llama.generate("Good", max_new_tokens=4) == second


def test_weights_may_lie_beside_the_program(
    tmp_path: Path,
    checkpoints: Callable[[str], Path],
    exported: Callable[..., Path],
    llama: TextGenerator,
) -> None:
    path = tmp_path / "llama.pte"
    done = aoti(
        *("export", checkpoints("llama"), "-o", path, "--max-length", MAX_LENGTH),
        *("--external-weights", "--json"),
    )
    assert done.exit_code == 0, done.output
    ((data, nbytes),) = json.loads(done.stdout)["data_files"].items()
    assert path.stat().st_size < exported("llama").stat().st_size - nbytes // 2
    with TextGenerator(path, data_files=[data]) as generator:
        assert generator.generate(PROMPT, max_new_tokens=8) == llama.generate(
            PROMPT, max_new_tokens=8
        )


@pytest.mark.parametrize(
    ("kind", "quantize"),
    [
        ("llama", "none"),
        ("llama_tied", "int4"),
        ("llama_tied", "fp8"),
        ("qwen3", "int8"),
        ("gemma3", "int4"),
        ("qwen3_moe", "none"),
        ("qwen3_moe", "int4"),
        ("phi", "int4"),
        ("phi3", "none"),
        ("mamba", "int4"),
    ],
)
def test_64_greedy_tokens_are_those_of_transformers(
    kind: str, quantize: str, checkpoints: Callable[[str], Path], exported: Callable[..., Path]
) -> None:
    folder = checkpoints(kind)
    expected = greedy_tokens(folder, tokens_of(folder, PROMPT), COUNT, quantize)
    assert len(set(expected)) > 4  # not one token over and over
    with TextGenerator(exported(kind, quantize)) as generator:
        found = list(generator.tokens(tokens_of(folder, PROMPT), max_new_tokens=COUNT))
        again = list(generator.tokens(tokens_of(folder, PROMPT), max_new_tokens=COUNT))
    assert found == expected
    assert again == expected  # over the old cache


GPU = ("--device", "cuda", "--target", "h100", "--dtype", "bfloat16")


def weights_of_tied() -> int:
    """Weights of products and of the embedding, which is the last of them."""
    chosen = config("llama_tied")
    width, inner, words = chosen.hidden_size, chosen.intermediate_size, chosen.vocab_size
    keys = chosen.num_key_value_heads * chosen.head_dim
    return int((2 * width + 2 * keys + 3 * inner + words) * width)


def zeros_of_caches(nbytes: int) -> int:
    """Bytes of what all its caches begin with, of numbers with so many each."""
    chosen = config("llama_tied")
    return int(MAX_LENGTH * chosen.num_key_value_heads * chosen.head_dim * nbytes)


@pytest.mark.parametrize(("options", "nbytes"), [((), 4), (GPU, 2)], ids=["cpu", "cuda"])
def test_four_bits_are_held_in_four_bits(
    exported: Callable[..., Path], options: tuple[object, ...], nbytes: int
) -> None:
    """With their scales; the embedding, which is the head as well, once."""
    weights = weights_of_tied()
    needed = weights // 2 + weights // GROUP * nbytes
    zeros = zeros_of_caches(nbytes)
    program = exported("llama_tied", "int4", *options).read_bytes()
    assert needed <= weights_nbytes(program) - zeros <= 1.05 * needed


def test_floats_of_8_bits_have_8_bits(exported: Callable[..., Path]) -> None:
    """With a scale for each row; the embedding, which is the head as well, once."""
    weights = weights_of_tied()
    program = exported("llama_tied", "fp8", *GPU).read_bytes()
    assert weights <= weights_nbytes(program) - zeros_of_caches(2) <= 1.05 * weights


@pytest.mark.parametrize("more", [(), ("--option", "cuda_graphs=false")])
def test_calls_on_a_gpu_are_graphs_unless_told(
    exported: Callable[..., Path], more: tuple[object, ...]
) -> None:
    done = aoti("inspect", exported("llama_tied", "int4", *GPU, *more), "--json")
    delegates = [one["delegates"] for one in json.loads(done.stdout)["methods"]]
    (delegate,) = next(found for found in delegates if found)
    assert ("cuda_graphs" in delegate["payload"]["flags"]) is not bool(more)


@needs_executorchs_extension
@pytest.mark.parametrize(
    "options",
    [(), ("none", "--method-style", "prefill-decode", "--speculate", 6)],
    ids=["forward", "prefill and decode"],
)
def test_the_stock_runner_gives_the_same_text(
    exported: Callable[..., Path],
    llama: TextGenerator,
    run_python: Callable[..., str],
    tmp_path: Path,
    options: tuple[object, ...],
) -> None:
    shutil.copy(tokenizer_of(exported("llama")), tmp_path / "tokenizer.json")
    special = {"bos_token": "<s>", "eos_token": "</s>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(special))
    printed = run_python(
        """
        import sys
        from aoti_plugins.runtime import register; register()
        from executorch.extension.llm.runner import GenerationConfig, TextLLMRunner
        program, tokenizer, prompt, count = sys.argv[1:]
        config = GenerationConfig(echo=False, temperature=0.0, max_new_tokens=int(count))
        text = []
        TextLLMRunner(program, tokenizer).generate(prompt, config, text.append)
        print("generated", ascii("".join(text)))
        """,
        exported("llama", *options),
        tmp_path / "tokenizer.json",
        PROMPT,
        16,
    )
    assert f"generated {llama.generate(PROMPT, max_new_tokens=16)!a}\n" in printed


def test_generating_needs_neither_torch_nor_transformers(
    exported: Callable[..., Path], llama: TextGenerator, run_python: Callable[..., str]
) -> None:
    printed = run_python(
        """
        import sys
        from aoti_plugins.generation import TextGenerator
        with TextGenerator(sys.argv[1]) as generator:
            print("generated", ascii(generator.generate(sys.argv[2], max_new_tokens=8)))
        print("imported", {"torch", "transformers"} & set(sys.modules))
        """,
        exported("llama"),
        PROMPT,
    )
    assert f"generated {llama.generate(PROMPT, max_new_tokens=8)!a}" in printed
    assert "imported set()" in printed


def test_top_k_of_one_is_greedy_and_seeds_repeat(llama: TextGenerator) -> None:
    def text(**options: Any) -> str:
        return llama.generate(PROMPT, sampling=Sampling(**options), max_new_tokens=24)

    assert text(temperature=1.0, top_k=1, seed=3) == text()
    assert text(temperature=1.0, seed=3) == text(temperature=1.0, seed=3)
    assert text(temperature=1.0, seed=3) != text(temperature=1.0, seed=4)


def test_statistics_say_what_an_answer_took(llama: TextGenerator) -> None:
    llama.generate(PROMPT, max_new_tokens=5)
    found = llama.statistics
    assert (found.prompt_tokens, found.new_tokens, found.reason) == (len(PROMPT), 5, "length")
    assert 0 < found.first_token_s < found.seconds
    assert found.tokens_per_s == pytest.approx(4 / (found.seconds - found.first_token_s))


def test_an_answer_ends_where_the_cache_does(llama: TextGenerator) -> None:
    found = list(llama.tokens([1] * (MAX_LENGTH - 3)))
    assert len(found) == 3
    with pytest.raises(ProgramError, match=f"{MAX_LENGTH} tokens, and prompt and answer together"):
        llama.tokens([1] * MAX_LENGTH)
    with pytest.raises(ProgramError, match="no tokens"):
        llama.stream("")
    with pytest.raises(ProgramError, match="token 9999 of the prompt"):
        llama.tokens([9999])


def test_generate_prints_the_text_and_stops(
    exported: Callable[..., Path], llama: TextGenerator
) -> None:
    whole = llama.generate(PROMPT, max_new_tokens=16)
    done = aoti("generate", exported("llama"), PROMPT, "--max-new-tokens", 16)
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{whole}\n"
    assert "8 tokens read, 16 generated (length)" in done.stderr
    stop = whole[5:7]
    done = aoti("generate", exported("llama"), PROMPT, "--stop", stop, "--json")
    report = json.loads(done.stdout)
    assert report["text"] == whole[: whole.index(stop)]
    assert report["reason"] == "stop"


def test_the_wrong_tokenizer(exported: Callable[..., Path], tmp_path: Path) -> None:
    other = write_tokenizer(tmp_path / "tokenizer.json", "<more>")
    done = aoti("generate", exported("llama"), PROMPT, "--tokenizer", other)
    assert done.exit_code == 1
    assert "not the tokenizer that the program" in done.stderr
    other.write_text("{}")
    with pytest.raises(CheckpointError, match="not a tokenizer"):
        TextGenerator(exported("llama"), other)
    with pytest.raises(CheckpointError, match="there is no tokenizer"):
        TextGenerator(exported("llama"), tmp_path / "none.json")


def test_a_program_that_is_no_language_model(lowered_programs: Callable[[str], Path]) -> None:
    done = aoti("generate", lowered_programs("mlp"), PROMPT)
    assert done.exit_code == 1
    assert "it is no language model" in done.stderr


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncate, "model.safetensors: damaged: "),
        (lambda folder: (folder / "model.safetensors").unlink(), "there is no model.safetensors"),
        (lambda folder: (folder / "config.json").unlink(), "there is no config.json"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "there is no tokenizer.json"),
        (lambda folder: (folder / "config.json").write_text("{"), "no configuration that trans"),
        (lambda folder: edit_config(folder, model_type="nonsense"), "no configuration that trans"),
        (lambda folder: edit_config(folder, model_type="t5"), "is an encoder with a decoder"),
        (lambda folder: edit_config(folder, model_type="vit"), "no model for 'vit' that writes"),
        (lambda folder: edit_config(folder, model_type="bert"), "'bert' is an encoder, which wr"),
        (lambda folder: edit_config(folder, model_type="whisper"), "no preprocessor_config.json"),
        (lambda folder: edit_config(folder, model_type="rwkv"), "not every layer of 'rwkv' keeps"),
        (lambda folder: edit_config(folder, model_type="jamba"), "only falcon_mamba and mamba can"),
        (
            lambda folder: edit_config(
                folder, model_type="lfm2", layer_types=["conv", "full_attention"]
            ),
            "one pair of keys and values (LinearAttentionLayer)",
        ),
        (lambda folder: edit_config(folder, model_type="ctrl"), "no static key and value cache"),
        (lambda folder: edit_config(folder, model_type="gpt_neo"), "no configuration that trans"),
        (
            lambda folder: edit_config(folder, rope_scaling={"rope_type": "dynamic", "factor": 2}),
            "angles that depend on the length of the text",
        ),
        (
            lambda folder: edit_config(folder, quantization_config={"quant_method": "gptq"}),
            "the weights are quantised already",
        ),
        (lambda folder: edit_config(folder, num_hidden_layers=3), "are in no file, such as model."),
        (lambda folder: edit_config(folder, hidden_size=32), "transformers cannot load it"),
        (lambda folder: edit_config(folder, vocab_size=200), "the tokenizer has 258 tokens"),
    ],
)
def test_checkpoints_that_cannot_be_exported(
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
    spoil: Callable[[Path], object],
    message: str,
) -> None:
    folder = shutil.copytree(checkpoints("llama"), tmp_path / "model")
    spoil(folder)
    done = aoti("export", folder, "-o", tmp_path / "out.pte")
    assert done.exit_code == 1, done.output
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--quantize", "int4", "--group-size", 48), "groups of 48 do not fit"),
        (("--max-length", 129), "was made for 128 positions"),
        (("--target", "nonsense"), "nonsense"),
        (("--device", "nonsense"), "cannot lower for device 'nonsense'"),
        (("--quantize", "fp8", "--device", "mps"), "Metal has no floats of 8 bits; choose int8"),
        (
            ("--quantize", "fp8", "--device", "cuda", "--target", "a100"),
            "GPUs of target a100 have no floats of 8 bits",
        ),
    ],
)
def test_options_that_do_not_fit(
    checkpoints: Callable[[str], Path], tmp_path: Path, options: tuple[object, ...], message: str
) -> None:
    done = aoti("export", checkpoints("llama"), "-o", tmp_path / "out.pte", *options)
    assert done.exit_code == 1, done.output
    assert message in done.stderr
    assert not list(tmp_path.iterdir())
