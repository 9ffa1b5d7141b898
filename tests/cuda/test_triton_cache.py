"""What Triton compiled is checked when it is read again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="lowering for CUDA needs Triton")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Triton's cache in a folder of the test, with a kernel of two files in it."""
    from triton.runtime.cache import get_cache_manager

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv(
        "TRITON_CACHE_MANAGER",
        "aoti_plugins.lowering.inductor.gpu.checked_cache:CheckedCacheManager",
    )
    manager = get_cache_manager("ab" * 32)
    names = {
        name: manager.put(data, name) for name, data in {"k.json": "{}", "k.cubin": b"\7"}.items()
    }
    manager.put_group("k.json", names)
    assert get_cache_manager("ab" * 32).get_group("k.json") == names
    (found,) = tmp_path.iterdir()
    return found


@pytest.mark.parametrize("name", ["k.cubin", "k.json", "__grp__k.json", "k.cubin.sha256"])
@pytest.mark.parametrize("data", [b"", b"\xff\xfe\x00", None])
def test_a_kernel_with_a_damaged_file_is_not_found(
    folder: Path, name: str, data: bytes | None
) -> None:
    from triton.runtime.cache import get_cache_manager

    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)
    manager = get_cache_manager("ab" * 32)
    assert not manager.get_group("k.json")
    manager.put(b"\7", "k.cubin")
    assert manager.get_file("k.cubin") == str(folder / "k.cubin")


def test_a_file_needs_no_folder_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from triton.runtime.cache import get_cache_manager

    manager = get_cache_manager("ab" * 32)
    monkeypatch.setattr(os, "makedirs", lambda *_, **__: pytest.fail("a folder was made"))
    path = manager.put("\u00e9 and more", "k.ptx", binary=False)
    assert Path(path).read_text("utf-8") == "\u00e9 and more"
    assert manager.get_file("k.ptx") == path
    names = {"k.json", "k.cubin", "__grp__k.json", "k.ptx"}
    assert {p.name for p in folder.iterdir()} == names | {f"{name}.sha256" for name in names}
