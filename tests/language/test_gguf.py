"""GGUF files: what transformers makes of them, in programs that hold their bits."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from executorch.exir._serialize._program import deserialize_pte_binary
from filelock import FileLock
from gguf_blocks import quantised
from tiny_checkpoints import CHAT_TEMPLATE
from tiny_gguf import BEGIN, END, END_OF_TURN, TYPES, dequantised, write_gguf

from aoti_plugins.cli.app import app
from aoti_plugins.errors import CheckpointError
from aoti_plugins.generation import TextGenerator, chat_template_of, read_tokenizer
from aoti_plugins.language import kept_matrices, open_checkpoint
from aoti_plugins.language.gguf.small_weights import OF_LAYERS, small_weight

PROMPT, COUNT, MAX_LENGTH = "Hello, 1", 48, 96

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


def aoti(*arguments: object) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture(scope="module")
def files(shared_dir: Path) -> Callable[[str], Path]:
    """``files("llama")`` is a GGUF file, written once per run."""

    def written(kind: str) -> Path:
        path = shared_dir / f"{kind}.gguf"
        with FileLock(f"{path}.lock"):
            if not path.exists():
                write_gguf(path, kind)
        return path

    return written


@pytest.mark.parametrize("kind", OF_LAYERS)
def test_weights_stand_for_the_same_numbers(kind: str) -> None:
    torch.manual_seed(1)
    rows, of_type = torch.randn(6, 512).numpy(), gguf.GGMLQuantizationType[kind]
    blocks = quantised(rows, kind) if kind.endswith("_K") else gguf.quantize(rows, of_type)
    expected = gguf.dequantize(blocks, of_type)
    assert np.abs(expected - rows).mean() < 0.1
    found: Any = small_weight(blocks, kind, torch.float32)
    assert torch.equal(found.dequantize(), torch.from_numpy(expected))
    x = torch.eye(512)
    assert torch.equal(torch.nn.functional.linear(x, found).t(), torch.from_numpy(expected))


def test_an_embedding_reads_the_rows_that_it_needs() -> None:
    rows = torch.randn(6, 512).numpy()
    weight = small_weight(quantised(rows, "Q6_K"), "Q6_K", torch.float32)
    chosen = torch.tensor([[5, 0, 5]])
    found = torch.nn.functional.embedding(chosen, weight)
    assert torch.equal(found, weight.dequantize()[chosen])  # type: ignore[operator]


@pytest.mark.parametrize("kind", TYPES)
def test_logits_are_those_of_dequantised_weights(kind: str, files: Callable[[str], Path]) -> None:
    tokens = torch.arange(24)[None]
    model = open_checkpoint(files(kind)).load("float32")
    with torch.no_grad():
        found = model(tokens).logits
        expected = dequantised(files(kind), kind)(tokens).logits
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_greedy_tokens_are_those_of_dequantised_weights(
    kind: str, files: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "model.pte"
    done = aoti(
        *(
            "export",
            files(kind),
            "-o",
            path,
            "--max-length",
            MAX_LENGTH,
            "--dtype",
            "float32",
            "--json",
        )
    )
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["not_quantized"] == {}
    assert json.loads(chat_template_of(path).read_text())["template"] == CHAT_TEMPLATE
    with TextGenerator(path) as generator:
        prompt = list(generator.tokenizer.encode(PROMPT).ids)
        found = list(generator.tokens(prompt, max_new_tokens=COUNT))
        check_bytes_of_a_token(generator.token_nbytes, files(kind))
    given = torch.tensor([prompt])
    expected = dequantised(files(kind), kind).generate(
        given, attention_mask=torch.ones_like(given), max_new_tokens=COUNT, do_sample=False
    )
    assert found == expected[0, len(prompt) :].tolist()
    assert len(set(found)) > 4  # not one token over and over
    check_bits(path, files(kind))


def check_bytes_of_a_token(nbytes: int, file: Path) -> None:
    """It reads the file's weights as they lie, and of an embedding that is no head one row.

    Types without zeros have zeros of a byte for each group beside them.
    """
    parts = {one.name: int(one.n_bytes) for one in gguf.GGUFReader(file).tensors}
    looked_up = parts["token_embd.weight"] if "output.weight" in parts else 0
    expected = sum(parts.values()) - looked_up
    assert 0.98 * expected < nbytes < 1.02 * expected


def nbytes_of_weights(program: Path) -> int:
    """What a program holds beside its code."""
    stored = deserialize_pte_binary(program.read_bytes())
    return sum(
        len(stored.named_data.buffers[entry.buffer_index])
        for key, entry in stored.named_data.pte_data.items()
        if key.endswith("_weights_blob")
    )


def check_bits(program: Path, file: Path) -> None:
    """The program's weights are those of the file, and not larger.

    Beside them is what all caches begin with.
    """
    config = open_checkpoint(file).config
    zeros = MAX_LENGTH * config.num_key_value_heads * config.head_dim * 4
    expected = sum(one.n_bytes for one in gguf.GGUFReader(file).tensors)
    assert 0.98 * expected < nbytes_of_weights(program) - zeros < 1.02 * expected


def test_what_is_not_of_few_bits_is_named(files: Callable[[str], Path]) -> None:
    opened = open_checkpoint(files("qwen2"))
    assert opened.is_quantized
    model = opened.load("auto")
    assert model.dtype == torch.bfloat16
    assert kept_matrices(model) == {
        "model.layers.*.mlp.up_proj.weight": 2 * 512 * 256 * 2,  # bfloat16
        "lm_head.weight": 264 * 256 * 2,  # float16
        "model.layers.*.self_attn.k_proj.weight": 2 * 128 * 256 * 2,  # Q5_0
    }


@pytest.mark.parametrize("kind", ["qwen3", "gemma3"])  # Q6_K and Q8_0
def test_a_head_that_is_the_embedding(kind: str, files: Callable[[str], Path]) -> None:
    model = open_checkpoint(files(kind)).load("bfloat16")
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert kept_matrices(model) == {}


@pytest.mark.parametrize("text", ["Hello, wörld!", "  1 + 1 =\n2", "Hell"])
def test_texts_survive_the_tokenizer(files: Callable[[str], Path], text: str) -> None:
    opened = open_checkpoint(files("llama"))
    tokenizer = read_tokenizer(opened.tokenizer_path)
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_tokens_are_those_of_the_file(files: Callable[[str], Path]) -> None:
    opened = open_checkpoint(files("llama"))
    tokenizer = read_tokenizer(opened.tokenizer_path)
    assert tokenizer.encode("Hell</s>").ids == [256, 257, END]
    assert max(tokenizer.get_vocab(with_added_tokens=True).values()) == opened.config.vocab_size - 1
    chosen = opened.load("float32").generation_config
    assert (chosen.bos_token_id, chosen.eos_token_id) == (BEGIN, [END, END_OF_TURN])
    assert opened.chat_template == {
        "template": CHAT_TEMPLATE,
        "tokens": {"bos_token": "<s>", "eos_token": "</s>"},
    }


def test_positions_that_are_divided(tmp_path: Path) -> None:
    def also(writer: Any) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(8.0)

    config = open_checkpoint(write_gguf(tmp_path / "model.gguf", "gemma3", also)).config
    found = {name: one["rope_type"] for name, one in config.rope_parameters.items()}
    assert found == {"full_attention": "linear", "sliding_attention": "default"}
    assert config.rope_parameters["full_attention"]["factor"] == 8.0


def test_positions_that_are_scaled_otherwise(tmp_path: Path) -> None:
    def also(writer: Any) -> None:
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)

    path = write_gguf(tmp_path / "model.gguf", "qwen2", also)
    with pytest.raises(CheckpointError, match="positions are scaled by 'yarn'"):
        open_checkpoint(path)


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    """Other bytes, of the same number."""
    assert len(old) == len(new)
    return lambda data: data.replace(old, new)


def with_type(name: bytes, kind: int) -> Callable[[bytes], bytes]:
    """Another type for a tensor of one dimension."""

    def changed(data: bytes) -> bytes:
        place = data.index(name) + len(name) + 4 + 8
        return data[:place] + struct.pack("<I", kind) + data[place + 4 :]

    return changed


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda data: b"nonsense", "no GGUF file"),
        (lambda data: b"", "no GGUF file"),
        (lambda data: data[:6], "damaged or cut off"),
        (lambda data: data[:900], "damaged or cut off"),
        (lambda data: data[:-100], "damaged or cut off"),
        (replaced(b"llama", b"lxxxx"), "general.architecture is 'lxxxx'; of GGUF files gemma3,"),
        (replaced(b"llama.block_count", b"llama.block_xxxxx"), "the metadata lacks llama.block_c"),
        (with_type(b"output_norm.weight", 99), "a type that the package gguf does not know"),
        (with_type(b"output_norm.weight", 15), "output_norm.weight has the type Q8_K, which"),
        (replaced(b"blk.1.ffn_up", b"blk.1.ffn_xx"), "1 tensors of the model are missing, such as"),
        (replaced(b"rope_freqs", b"rope_xxxxs"), "1 tensors belong nowhere in transformers' llama"),
        (
            replaced(
                b"llama.feed_forward_length" + struct.pack("<II", 4, 512),
                b"llama.feed_forward_length" + struct.pack("<II", 4, 768),
            ),
            "6 tensors have other sizes than the metadata says: blk.0.ffn_down.weight is",
        ),
        (replaced(b"tokenizer.ggml.model", b"tokenizer.ggml.xxxxx"), "there is no tokenizer in it"),
        (replaced(b"tokenizer.ggml.merges", b"tokenizer.ggml.xxxxxx"), "no tokenizer that transf"),
    ],
)
def test_files_that_cannot_be_exported(
    files: Callable[[str], Path],
    tmp_path: Path,
    spoil: Callable[[bytes], bytes],
    message: str,
) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(spoil(files("llama").read_bytes()))
    check_refused(path, message)


def check_refused(path: Path, message: str, *options: object) -> None:
    """The command says why, and writes nothing."""
    before = sorted(path.parent.iterdir())
    done = aoti("export", path, "-o", path.parent / "out.pte", *options)
    assert done.exit_code == 1, done.output
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert sorted(path.parent.iterdir()) == before


def test_there_is_no_file(tmp_path: Path) -> None:
    check_refused(tmp_path / "model.gguf", "there is no such file")


def test_weights_that_are_quantised_already(files: Callable[[str], Path]) -> None:
    check_refused(files("llama"), "the weights are quantised already", "--quantize", "int4")


def test_without_the_package(files: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    check_refused(files("llama"), "gguf is missing: pip install 'aoti-plugins[language]'")


@pytest.mark.long
def test_4_bits_stay_4_bits_on_a_gpu(files: Callable[[str], Path], tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    done = aoti(
        *("export", files("llama"), "-o", path, "--max-length", MAX_LENGTH),
        *("--device", "cuda", "--target", "h100", "--dtype", "bfloat16"),
    )
    assert done.exit_code == 0, done.output
    weights = sum(one.n_elements for one in gguf.GGUFReader(files("llama")).tensors)
    assert nbytes_of_weights(path) < 7 / 8 * weights
