"""Inductor and Triton read nothing that somebody else could have written."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from aoti_plugins.lowering.artifacts.cache_folder import CACHE_DIR_VARIABLE, CacheNotPrivateError
from aoti_plugins.lowering.inductor.own_folders import own_folders

INDUCTOR, TRITON = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INDUCTOR, raising=False)
    monkeypatch.delenv(TRITON, raising=False)
    monkeypatch.setenv(CACHE_DIR_VARIABLE, str(tmp_path / "cache"))


def test_folders_are_the_users_alone(tmp_path: Path) -> None:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    before = os.environ.get(INDUCTOR)
    with own_folders():
        assert os.environ[TRITON] == str(tmp_path / "cache" / "triton-kernels")
        for folder in (cache_dir(), os.environ[TRITON]):
            assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert os.environ.get(INDUCTOR) == before


def test_the_choice_that_inductor_noted_is_not_the_users() -> None:
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    os.environ[INDUCTOR] = default_cache_dir()
    with own_folders():
        assert os.environ[INDUCTOR] != default_cache_dir()


@pytest.mark.parametrize("variable", [INDUCTOR, TRITON])
def test_a_chosen_folder_stays_unless_others_can_write_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    chosen = tmp_path / "chosen"
    chosen.mkdir(mode=0o700)
    monkeypatch.setenv(variable, str(chosen))
    with own_folders():
        assert os.environ[variable] == str(chosen)
    chosen.chmod(0o777)
    with pytest.raises(CacheNotPrivateError, match=variable), own_folders():
        pass


def test_nothing_stays_of_a_process(run_python: Callable[..., str], tmp_path: Path) -> None:
    code = (
        "import os\n"
        "from aoti_plugins.lowering.inductor.own_folders import own_folders\n"
        "with own_folders():\n"
        f"    print(os.environ['{INDUCTOR}'])\n"
    )
    (tmp_path / "temporary").mkdir()
    folder = Path(run_python(code, TMPDIR=str(tmp_path / "temporary")).strip())
    assert folder.parent == tmp_path / "temporary"
    assert not folder.exists()
