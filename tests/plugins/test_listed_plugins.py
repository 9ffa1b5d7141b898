"""``plugins`` and ``doctor`` refuse what a lowering, or a program that runs, would refuse."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from aoti_plugins.cli._checks import _plugins as check_plugins
from aoti_plugins.cli.app import app
from aoti_plugins.cpu.target import host_machine
from aoti_plugins.lowering.artifacts.cxx import cxx_compiler
from aoti_plugins.plugin_system import manager
from aoti_plugins.runtime._kernel_libraries import installed_libraries, wrong_entries

Install = Callable[..., None]

HOOKS = """
from pathlib import Path
from aoti_plugins import CShim, FallbackKernel, SharedLibrary, Target, hookimpl

AOTI_PLUGINS_API = 1
"""
KERNEL = """
@hookimpl
def aoti_fallback_kernels(device):
    shim = CShim("aoti_torch_cpu_acme_cube", "AOTITorchError aoti_torch_cpu_acme_cube(void)")
    library = SharedLibrary(Path(__file__).parent / "kernels/libacme.so.1", "{soname}", "1.0")
    return [FallbackKernel("acme::cube", (shim,), provider=library)] if device == "cpu" else []
"""
UNKNOWN_OPTION = """
@hookimpl
def aoti_inductor_options(device):
    return {"cpp.thread": 3} if device == "cpu" else {}
"""
POOR_TARGET = """
@hookimpl
def aoti_targets(device):
    return [Target("board", "cpu", "aarch64")] if device == "cpu" else []
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Make a package ``acme_listed`` look installed, with a kernel library of C++, for one test."""
    monkeypatch.setattr(manager, "_manager", None)  # later tests are not to find it

    def add(hooks: str = "", libraries: dict[str, str] | None = None) -> None:
        package, facts = tmp_path / "acme_listed", tmp_path / "acme_listed-1.0.dist-info"
        (package / "kernels").mkdir(parents=True)
        (package / "__init__.py").write_text(HOOKS + (hooks or "aoti_targets = hookimpl(list)\n"))
        (package / "kernel.cpp").write_text(
            'extern "C" int aoti_torch_cpu_acme_cube() { return 1; }'
        )
        library = str(package / "kernels" / "libacme.so.1")
        flags = ["-shared", "-fPIC", "-Wl,-soname,libacme.so.1", "-o", library]
        subprocess.run(
            [*cxx_compiler(host_machine()), str(package / "kernel.cpp"), *flags], check=True
        )
        facts.mkdir()
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-listed\nVersion: 1.0\n")
        lines = ["[aoti_plugins.libraries]"]
        lines += [f"{soname} = {folder}" for soname, folder in (libraries or {}).items()]
        if hooks:
            lines += ["[aoti_plugins]", "acme_listed = acme_listed"]
        (facts / "entry_points.txt").write_text("\n".join(lines))
        monkeypatch.syspath_prepend(str(tmp_path))

    yield add
    sys.modules.pop("acme_listed", None)


def listed() -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(app, ["plugins", "--json"])
    return result.exit_code, json.loads(result.stdout)


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        (
            UNKNOWN_OPTION,
            "no option 'cpp.thread'; there are cpp.threads",
        ),
        (POOR_TARGET, "properties['vector_isa'] of target 'board' must be one of"),
    ],
    ids=["option", "target"],
)
def test_what_lowering_would_refuse_is_broken(hooks: str, message: str, install: Install) -> None:
    install(hooks)
    code, report = listed()
    (plugin,) = [one for one in report["plugins"] if one["name"] == "acme_listed"]
    assert (code, plugin["state"]) == (1, "broken")
    assert message in plugin["error"]
    assert "AOTI_PLUGINS_BLOCK=acme_listed" in plugin["error"]
    (finding,) = check_plugins()
    assert not finding.ok
    assert message in finding.found


GOOD_ENTRY = {"libacme.so.1": "acme_listed.kernels"}
CUBE = "the library of fallback kernel 'aoti_torch_cpu_acme_cube' of acme-listed: "


@pytest.mark.parametrize(
    ("soname", "libraries", "problem"),
    [
        (
            "libacme.so.1",
            {"libacme.so.2": "acme_listed.kernels"},
            "acme-listed lists kernel library 'libacme.so.2' in 'acme_listed.kernels', where it is "
            "not, and does not list acme_listed/kernels/libacme.so.1. ",
        ),
        (
            "libacme.so.1",
            {"libacme.so.1": "acme_listed.kernel"},
            "acme-listed lists kernel library 'libacme.so.1' in 'acme_listed.kernel', where it is ",
        ),
        (
            "libacme.so.1",
            {"libacme.so.1": "acme_misspelt.kernels"},
            "acme-listed lists kernel library 'libacme.so.1' in 'acme_misspelt.kernels', and there "
            "is no such package. ",
        ),
        ("libacme.so.1", {}, CUBE + "'libacme.so.1' is in a package, and no entry point of the "),
        ("libacme.so.2", GOOD_ENTRY, CUBE + "SharedLibrary.soname is 'libacme.so.2', and '/"),
    ],
    ids=["soname", "folder", "package", "not listed", "hook"],
)
def test_a_library_that_programs_would_not_find(
    soname: str, libraries: dict[str, str], problem: str, install: Install
) -> None:
    install(KERNEL.format(soname=soname), libraries)
    code, report = listed()
    assert code == 1
    assert [one for one in report["kernel_libraries"] if one.startswith(problem)]
    (finding,) = check_plugins()
    assert not finding.ok
    assert problem in finding.found


def test_libraries_that_are_found_or_were_not_built(install: Install) -> None:
    install(
        KERNEL.format(soname="libacme.so.1"),
        GOOD_ENTRY | {"libacme_cuda.so.1": "acme_listed.kernels"},
    )
    assert listed()[0] == 0
    assert listed()[1]["kernel_libraries"] == []
    assert installed_libraries()["libacme.so.1"].name == "libacme.so.1"


def test_the_runtime_warns_of_a_wrong_entry(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    from aoti_plugins.runtime import _kernel_libraries

    class Core:
        @staticmethod
        def aotip_add_kernel_library(soname: bytes, path: bytes) -> int:
            del soname, path
            return 0

    install(libraries={"libacme.so.2": "acme_listed.kernels"})
    with caplog.at_level(logging.WARNING, "aoti_plugins"):
        _kernel_libraries.announce(Core())  # type: ignore[arg-type]
    assert [record.getMessage() for record in caplog.records] == wrong_entries() != []
