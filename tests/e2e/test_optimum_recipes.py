"""optimum-executorch with our recipes, by its own ``main_export`` and its command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executorch.exir._serialize._program import deserialize_pte_binary
from filelock import FileLock
from support import needs_executorchs_extension
from tiny_checkpoints import greedy_tokens, write_checkpoint

from aoti_plugins.errors import LoweringError
from aoti_plugins.runtime import Program

pytest.importorskip(
    "optimum.exporters.executorch",
    reason="pip install --no-deps optimum-executorch 'optimum~=2.0'; make .venv/.installed does",
)
pytestmark = [
    needs_executorchs_extension,  # optimum-executorch imports its custom ops
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
PROMPT, COUNT, MAX_LENGTH = [72, 69, 76, 76, 79], 24, 48


@pytest.fixture(scope="module")
def checkpoint(shared_dir: Path) -> Path:
    folder = shared_dir / "optimum_checkpoint"
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            folder.mkdir()
            write_checkpoint(folder, "llama_tied")
    return folder


def exported(checkpoint: Path, recipe: str, output: Path, **options: Any) -> Path:
    from optimum.exporters.executorch import main_export

    import aoti_plugins.optimum_recipes  # noqa: F401

    main_export(
        str(checkpoint),
        "text-generation",
        recipe,
        output,
        max_seq_len=MAX_LENGTH,
        recipe_kwargs=options,
    )
    return output / "model.pte"


def test_a_program_for_the_cpu(checkpoint: Path, tmp_path: Path) -> None:
    text = list(PROMPT)
    with Program(exported(checkpoint, "aoti_cpu", tmp_path)) as program:
        assert program.method("get_max_seq_len")() == (MAX_LENGTH,)
        forward, begin = program.method("forward"), 0
        for _ in range(COUNT):
            (logits,) = forward(np.array([text[begin:]]), np.arange(begin, len(text)))
            begin = len(text)
            text.append(int(logits[0, -1].argmax()))
    assert text[len(PROMPT) :] == greedy_tokens(checkpoint, PROMPT, COUNT)


@pytest.mark.parametrize(
    ("recipe", "backend", "options"),
    [
        ("aoti_cuda", "AotiCudaBackend", ("--option", "target=h100")),
        ("aoti_mps", "AotiMpsBackend", ()),
    ],
    ids=["cuda", "mps"],
)
def test_programs_for_gpus_are_whole(
    checkpoint: Path,
    tmp_path: Path,
    run_python: Callable[..., str],
    recipe: str,
    backend: str,
    options: tuple[str, ...],
) -> None:
    run_python(
        "import sys; from aoti_plugins.optimum_recipes import main; main(sys.argv[1:])",
        *options,
        *("export", "executorch", "--model", checkpoint, "--task", "text-generation"),
        *("--recipe", recipe, "--output_dir", tmp_path, "--max_seq_len", MAX_LENGTH),
    )
    plan = next(
        one
        for one in deserialize_pte_binary(
            (tmp_path / "model.pte").read_bytes()
        ).program.execution_plan
        if one.name == "forward"
    )
    assert [one.id for one in plan.delegates] == [backend]
    assert plan.operators == []


def test_an_option_that_there_is_not(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(LoweringError, match=r"recipe aoti_cpu: .*nonsense"):
        exported(checkpoint, "aoti_cpu", tmp_path, nonsense=1)
