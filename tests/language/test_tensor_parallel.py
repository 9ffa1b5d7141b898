"""Language models on several ranks: the same text as on one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner
from serving_support import Server, served
from tiny_checkpoints import greedy_tokens

from aoti_plugins.cli.app import app
from aoti_plugins.generation import read_tokenizer, tokenizer_of

PROMPT, COUNT = "Hello, 1", 24

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


def on_ranks(*arguments: object, count: int = 2) -> subprocess.CompletedProcess[str]:
    """Run a command of ours on some ranks, by torchrun."""
    torchrun = ("-m", "torch.distributed.run", "--nproc-per-node", count, "-m", "aoti_plugins")
    command = [sys.executable, *map(str, (*torchrun, *arguments))]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "AOTI_PLUGINS_RANK_TIMEOUT": "60"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_torchrun_generates_what_one_process_does(
    exported: Callable[..., Path], checkpoints: Callable[[str], Path]
) -> None:
    path = exported("llama_tied", "none", "--tensor-parallel", 2)
    names = [path.name, *(f"{path.stem}{end}.ptd" for end in ("", ".rank-0", ".rank-1"))]
    assert all((path.parent / name).exists() for name in names)
    done = on_ranks("generate", path, PROMPT, "--max-new-tokens", COUNT)
    assert done.returncode == 0, done.stderr
    tokenizer = read_tokenizer(tokenizer_of(path))
    prompt = list(tokenizer.encode(PROMPT).ids)
    expected = greedy_tokens(checkpoints("llama_tied"), prompt, COUNT)
    assert done.stdout == tokenizer.decode(expected) + "\n"
    ran = on_ranks("run", path, "--json", "--repeat", 1)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count('"median_call"') == 1  # rank 0 says it


def test_weights_of_4_bits_are_divided_first(exported: Callable[..., Path]) -> None:
    """Groups are of one rank, so codes are those of one process."""
    path = exported("llama_tied", "int4", "--tensor-parallel", 2)
    done = on_ranks("generate", path, PROMPT, "--max-new-tokens", COUNT)
    assert done.returncode == 0, done.stderr
    single = ("generate", exported("llama_tied", "int4"), PROMPT, "--max-new-tokens", COUNT)
    alone = subprocess.run(
        [sys.executable, "-m", "aoti_plugins", *map(str, single)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == alone.stdout


def test_ranks_serve_behind_one_endpoint(exported: Callable[..., Path]) -> None:
    def answers(server: Server) -> list[str]:
        def answer(said: str) -> str:
            found = server.client(timeout=60).chat.completions.create(
                model="tiny", messages=[{"role": "user", "content": said}], max_tokens=12
            )
            return str(found.choices[0].message.content)

        with ThreadPoolExecutor(2) as clients:
            return list(clients.map(answer, ("1", "2 + 3", "1")))

    name = ("--model-id", "tiny")
    with served(exported("llama_tied", "none"), *name) as alone:
        expected = answers(alone)
    divided = exported("llama_tied", "none", "--tensor-parallel", 2)
    with served(divided, *name, num_ranks=2) as server:
        assert answers(server) == expected
        _, said, seconds = server.interrupt()
    assert "stopped" in said
    assert seconds < 30


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("llama", ("--tensor-parallel", 3), "which cannot be divided among 3 ranks"),
        ("opt", ("--tensor-parallel", 2), "transformers has no plan of how 'opt' is divided"),
        ("mamba", ("--tensor-parallel", 2), "'mamba' cannot be divided among ranks"),
        ("llama", ("--tensor-parallel", 2, "--lora-rank", 4), "do not go together"),
        ("llama", ("--tensor-parallel", 2, "--quantize", "fp8"), "do not go together"),
    ],
)
def test_what_cannot_be_divided(
    checkpoints: Callable[[str], Path],
    tmp_path: Path,
    kind: str,
    options: tuple[object, ...],
    reason: str,
) -> None:
    command = ("export", checkpoints(kind), "-o", tmp_path / "model.pte", *options)
    done = CliRunner().invoke(app, [str(one) for one in command])
    assert done.exit_code != 0
    assert reason in " ".join(done.output.split())
    assert list(tmp_path.iterdir()) == []
