"""Adapters (LoRA) of one program: tokens as peft generates them, and what is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from filelock import FileLock
from safetensors.numpy import load_file, save_file
from serving_support import served
from test_cpp_generate import answers, run, texts
from tiny_adapters import ADAPTERS, RANK, adapted_tokens, write_adapter
from tiny_checkpoints import greedy_tokens

from aoti_plugins.cli.app import app
from aoti_plugins.errors import CheckpointError, ProgramError
from aoti_plugins.generation import (
    AdapterLayout,
    ChatTemplate,
    TextGenerator,
    chat_template_of,
    read_adapter,
)
from aoti_plugins.runtime import Program

PROMPT, COUNT = [72, 69, 76, 76, 79], 48
LORA = ("none", "--lora-rank", RANK)
SMALL = (
    *("int4", "--method-style", "prefill-decode"),
    *("--lora-rank", RANK, "--lora-targets", "q_proj,v_proj,down_proj"),
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers|peft)"),
]


@pytest.fixture(scope="module")
def folders(shared_dir: Path, checkpoints: Callable[[str], Path]) -> dict[str, Path]:
    """The adapters of ``ADAPTERS`` as peft writes them, once per run."""
    folder = shared_dir / "adapters"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            for name in ADAPTERS:
                write_adapter(folder / name, checkpoints("llama"), name)
    return {name: folder / name for name in ADAPTERS}


@pytest.fixture
def adaptable(exported: Callable[..., Path], folders: dict[str, Path]) -> Iterator[TextGenerator]:
    with TextGenerator(exported("llama", *LORA), adapters=folders) as generator:
        yield generator


def aoti(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


def greedy(generator: TextGenerator) -> list[int]:
    return list(generator.tokens(PROMPT, max_new_tokens=COUNT))


def test_tokens_are_pefts(
    adaptable: TextGenerator, checkpoints: Callable[[str], Path], llama: TextGenerator
) -> None:
    own = greedy(adaptable)
    assert own == greedy_tokens(checkpoints("llama"), PROMPT, COUNT) == greedy(llama)
    found = {None: own}
    for name in ADAPTERS:
        adaptable.use_adapter(name)
        assert adaptable.adapter == name
        found[name] = greedy(adaptable)
        assert found[name] == adapted_tokens(checkpoints("llama"), name, PROMPT, COUNT)
    assert len({tuple(tokens) for tokens in found.values()}) == len(ADAPTERS) + 1
    adaptable.use_adapter(None)
    assert greedy(adaptable) == own


def test_weights_of_4_bits_and_two_methods(
    exported: Callable[..., Path], checkpoints: Callable[[str], Path], folders: dict[str, Path]
) -> None:
    given = {name: folders[name] for name in ("attention", "patterns")}
    with TextGenerator(exported("llama", *SMALL), adapters=given) as generator:
        expected = greedy_tokens(checkpoints("llama"), PROMPT, COUNT, "int4")
        assert greedy(generator) == expected
        for name in given:
            generator.use_adapter(name)
            expected = adapted_tokens(checkpoints("llama"), name, PROMPT, COUNT, "int4")
            assert greedy(generator) == expected


def test_sessions_have_each_their_adapter(adaptable: TextGenerator) -> None:
    names = ["attention", None, "all", "patterns", "attention"]
    alone = []
    for name in names:
        adaptable.use_adapter(name)
        alone.append(greedy(adaptable))
    sessions = [adaptable.session() for _ in names]
    for session, name in zip(sessions, names, strict=True):
        assert session.adapter is None
        session.use_adapter(name)
    adaptable.use_adapter("all")
    streams = [session.tokens(PROMPT, max_new_tokens=COUNT) for session in sessions]
    in_turns = list(zip(*streams, strict=True))
    assert [list(tokens) for tokens in zip(*in_turns, strict=True)] == alone
    assert adaptable.adapter == "all"


def test_what_another_adapter_read_is_read_again(adaptable: TextGenerator) -> None:
    adaptable.use_adapter("all")
    answer = greedy(adaptable)
    adaptable.use_adapter("all")  # no change
    assert adaptable.reusable(PROMPT) == len(PROMPT) - 1
    begun = adaptable.tokens(PROMPT)
    assert next(begun) == answer[0]
    adaptable.use_adapter("attention")
    assert adaptable.reusable(PROMPT) == 0
    with pytest.raises(ProgramError, match="it got another adapter"):
        next(begun)
    adaptable.use_adapter("all")
    assert greedy(adaptable) == answer


def test_the_command_line(
    exported: Callable[..., Path], folders: dict[str, Path], adaptable: TextGenerator
) -> None:
    adaptable.use_adapter("all")
    text, program = "Hello", exported("llama", *LORA)
    expected = adaptable.generate(text, max_new_tokens=12)
    for given in (f"poems={folders['all']}", folders["all"]):
        done = aoti("generate", program, text, "--max-new-tokens", 12, "--adapter", given)
        assert (done.exit_code, done.stdout) == (0, f"{expected}\n"), done.output
    for wrong in ("=x", "name=", "."):
        done = aoti("generate", program, text, "--adapter", wrong)
        assert done.exit_code == 2
        assert "expected NAME=FOLDER" in done.stderr
    twice = ("--adapter", f"one={folders['all']}")
    done = aoti("generate", program, text, *twice, "--adapter", f"two={folders['all']}")
    assert (done.exit_code, "one --adapter can be used" in done.stderr) == (2, True)
    assert aoti("generate", program, text, *twice, *twice).exit_code == 2
    done = aoti("generate", exported("llama"), text, *twice)
    assert done.exit_code == 1
    assert "takes no adapters; export it with --lora-rank" in done.stderr


def test_a_chat_changes_adapters(
    exported: Callable[..., Path], folders: dict[str, Path], adaptable: TextGenerator
) -> None:
    program = exported("llama", *LORA)
    template = ChatTemplate.read(chat_template_of(program))
    said = [f"/adapter {name}\n/clear\n1\n" for name in ("all", "attention", "none", "")]
    given = [f"--adapter={name}={folders[name]}" for name in ("attention", "all")]
    arguments = ["chat", str(program), "--max-new-tokens", "8", *given]
    done = CliRunner().invoke(app, arguments, input="1\n" + "".join(said))
    assert done.exit_code == 0, done.output
    prompt = template.render([{"role": "user", "content": "1"}])
    expected = []
    for name in ("attention", "all", "attention", "attention", None):
        adaptable.use_adapter(name)
        expected.append(adaptable.generate(prompt, max_new_tokens=8, special_tokens=False))
    assert done.stdout == "".join(f"{text}\n" for text in expected)
    assert done.stderr == "there is no adapter 'none'; there are: all, attention\n"


def test_adapters_are_models_of_a_server(
    exported: Callable[..., Path], folders: dict[str, Path], adaptable: TextGenerator
) -> None:
    program = exported("llama", *LORA)
    template = ChatTemplate.read(chat_template_of(program))
    messages: Any = [{"role": "user", "content": "1"}]
    prompt = template.render(messages)
    expected = {}
    for name in (None, *folders):
        adaptable.use_adapter(name)
        text = adaptable.generate(prompt, max_new_tokens=8, special_tokens=False)
        expected[name or "tiny"] = text
    given = [f"--adapter={name}={folder}" for name, folder in folders.items()]
    with served(program, "--model-id", "tiny", "--max-sessions", 2, *given) as server:
        client = server.client()
        assert [one.id for one in client.models.list()] == ["tiny", *sorted(folders)]
        for name in [*expected, *reversed(expected)]:
            found = client.chat.completions.create(model=name, messages=messages, max_tokens=8)
            assert found.model == name
            assert found.choices[0].message.content == expected[name]
        with pytest.raises(Exception, match="404"):
            client.chat.completions.create(model="other", messages=messages)
    done = aoti("serve", program, "--model-id", "all", *given)
    assert done.exit_code == 1
    assert "the model and an adapter are called 'all'" in done.stderr


def test_sessions_of_cpp(
    cpp_generate: Path,
    exported: Callable[..., Path],
    folders: dict[str, Path],
    adaptable: TextGenerator,
    tmp_path: Path,
) -> None:
    program = exported("llama", *LORA)
    with Program(program) as opened:
        layout = AdapterLayout.from_text(opened.method("get_adapter_layout")()[0])
        assert opened.method("get_adapter_numel")() == (layout.numel,)
    more: list[object] = [*texts([PROMPT] * 3), "--max-new-tokens", COUNT]
    expected = []
    for name in ("all", "attention"):
        read_adapter(folders[name], layout).tofile(tmp_path / name)
        more += ["--adapter", tmp_path / name]
        adaptable.use_adapter(name)
        expected.append(greedy(adaptable))
    adaptable.use_adapter(None)
    assert answers(cpp_generate, program, *more) == [*expected, greedy(adaptable)]
    numbers = np.fromfile(tmp_path / "all", np.float32)
    for wrong, message in (
        (numbers[1:], f"the adapter has {layout.numel - 1} numbers, expected {layout.numel}"),
        (np.append(numbers[:-1], np.float32("nan")), f"number {layout.numel - 1} of the adapter"),
    ):
        wrong.tofile(tmp_path / "wrong")
        done = run(cpp_generate, program, "72", "--adapter", tmp_path / "wrong")
        assert done.returncode == 1
        assert message in done.stderr


def test_numbers_of_other_types(
    adaptable: TextGenerator, folders: dict[str, Path], tmp_path: Path
) -> None:
    import torch
    from safetensors.torch import save_file as save_torch

    layout = AdapterLayout.from_text(adaptable._program.method("get_adapter_layout")()[0])
    expected = read_adapter(folders["all"], layout)
    for dtype, error in ((torch.bfloat16, 2e-2), (torch.float16, 2e-3), (torch.float64, 0)):
        folder = shutil.copytree(folders["all"], tmp_path / str(dtype))
        path = folder / "adapter_model.safetensors"
        tensors = {name: torch.from_numpy(one).to(dtype) for name, one in load_file(path).items()}
        save_torch(tensors, path)
        found = read_adapter(folder, layout)
        assert found.dtype == np.float32
        assert np.abs(found - expected).max() <= error * np.abs(expected).max()
        assert error == 0 or not np.array_equal(found, expected)
    save_torch({name: one.to(torch.int8) for name, one in tensors.items()}, path)
    with pytest.raises(CheckpointError, match=r"is I8, expected one of BF16"):
        read_adapter(folder, layout)


def edit(folder: Path, **changes: Any) -> None:
    path = folder / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_tensors(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = folder / "adapter_model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path)


FIRST = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"


def truncate(folder: Path) -> None:
    path = folder / "adapter_model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (truncate, "adapter_model.safetensors: damaged"),
        (lambda f: (f / "adapter_model.safetensors").write_bytes(b""), "damaged"),
        (lambda f: (f / "adapter_model.safetensors").unlink(), "cannot be read: No such file"),
        (lambda f: (f / "adapter_config.json").unlink(), "adapter_config.json: cannot be read"),
        (lambda f: (f / "adapter_config.json").write_text("[]"), "no configuration of an adapt"),
        (lambda f: (f / "adapter_config.json").write_text("{"), "no configuration of an adapter"),
        (lambda f: edit(f, lora_alpha="x"), "no configuration of an adapter"),
        (lambda f: edit(f, peft_type="IA3"), "of the kind 'IA3', expected 'LORA'"),
        (lambda f: edit(f, use_dora=True), "no adapters with use_dora; merge the adapter"),
        (lambda f: edit(f, bias="all", modules_to_save=["lm_head"]), "bias, modules_to_save"),
        (lambda f: edit_tensors(f, dict.clear), "there are no matrices"),
        (lambda f: edit_tensors(f, lambda t: t.pop(FIRST)), r"matrices of \[0\] and \[64, 4\]"),
        (
            lambda f: edit_tensors(f, lambda t: t.update({FIRST: t[FIRST][:, 1:].copy()})),
            r"q_proj has matrices of \[4, 63\] and \[64, 4\], expected \[rank, 64\]",
        ),
        (
            lambda f: edit_tensors(f, lambda t: t.update({FIRST: t[FIRST] / np.float32(0)})),
            "numbers that are not finite",
        ),
        (
            lambda f: edit_tensors(
                f, lambda t: t.update({FIRST.replace("layers.0", "layers.7"): t.pop(FIRST)})
            ),
            r"changes 1 layers .* such as model.layers.7.self_attn.q_proj; .*--lora-targets q_proj",
        ),
        (
            lambda f: edit_tensors(f, lambda t: t.update({"lora_magnitude_vector": t[FIRST]})),
            "tensors such as lora_magnitude_vector",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_adapters_that_cannot_be_read(
    exported: Callable[..., Path],
    folders: dict[str, Path],
    tmp_path: Path,
    spoil: Callable[[Path], object],
    message: str,
) -> None:
    folder = Path(shutil.copytree(folders["attention"], tmp_path / "adapter"))
    spoil(folder)
    with pytest.raises(CheckpointError, match=message):
        TextGenerator(exported("llama", *LORA), adapters={"one": folder})


def test_an_adapter_of_a_larger_rank_or_of_other_layers(
    exported: Callable[..., Path], folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(folders["attention"], tmp_path / "adapter"))

    def widen(tensors: dict[str, Any]) -> None:
        for name, one in tensors.items():
            tensors[name] = np.concatenate([one, one], 0 if "lora_A" in name else 1)

    edit_tensors(folder, widen)
    with pytest.raises(CheckpointError, match="has rank 8, and the program takes 4 at most; exp"):
        TextGenerator(exported("llama", *LORA), adapters={"one": folder})
    with pytest.raises(CheckpointError, match="changes 8 layers that the program takes no adapt"):
        TextGenerator(exported("llama", *SMALL), adapters={"one": folders["all"]})


def test_there_is_no_such_adapter(adaptable: TextGenerator) -> None:
    with pytest.raises(ProgramError, match=r"no adapter 'x'; there are: all, attention, patterns"):
        adaptable.use_adapter("x")
    with pytest.raises(ProgramError, match="the layout of adapters is none"):
        AdapterLayout.from_text("{}")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("llama", ("--lora-targets", "q_proj"), "--lora-targets needs --lora-rank"),
        ("llama", ("--lora-rank", 4, "--lora-targets", "q_proj,x"), "--lora-targets x: the model"),
        ("llama", ("--lora-rank", 4, "--lora-targets", "lm_head"), "there are down_proj, gate"),
        ("mamba", ("--lora-rank", 4), "'mamba' takes no adapters"),
        ("whisper", ("--lora-rank", 4), "'whisper' takes no adapters"),
    ],
)
def test_exports_that_are_refused(
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
    kind: str,
    options: tuple[object, ...],
    message: str,
) -> None:
    done = aoti("export", checkpoints(kind), "-o", tmp_path / "out.pte", *options)
    assert done.exit_code == 1, done.output
    assert message in done.stderr
    assert not list(tmp_path.iterdir())
