"""``aoti-plugins new-plugin`` makes packages that build and pass their own tests."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from packages.conftest import Package, without_packages

from aoti_plugins.cli.app import app
from aoti_plugins.cli.new_plugin import KINDS, make_package

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"


def files_in(folder: Path) -> dict[str, str]:
    paths = (p for p in folder.rglob("*") if p.is_file() and "__pycache__" not in p.parts)
    return {str(path.relative_to(folder)): path.read_text() for path in paths}


@pytest.mark.parametrize("kind", KINDS)
def test_the_examples_are_what_it_makes(kind: str, tmp_path: Path) -> None:
    make_package(f"acme-{kind}", kind, tmp_path)
    assert files_in(tmp_path) == files_in(EXAMPLES / kind)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_the_example_is_left(kind: str, tmp_path: Path) -> None:
    make_package("My.kernels", kind, tmp_path)
    made = files_in(tmp_path)
    assert 'name = "my-kernels"' in made["pyproject.toml"]
    assert "my_kernels/hooks.py" in made
    left = [name for name, text in made.items() if re.search("acme", name + text, re.IGNORECASE)]
    assert left == []


@pytest.mark.parametrize("kind", KINDS)
def test_its_tests_pass(kind: str, new_package: Callable[[str], Package], tmp_path: Path) -> None:
    run_tests(new_package(kind), "not gpu", tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["triton", "native"])
def test_its_tests_pass_on_a_gpu(
    kind: str, new_package: Callable[[str], Package], tmp_path: Path
) -> None:
    run_tests(new_package(kind), "gpu", tmp_path)


# A plugin whose every answer would change what the tests of a package look at.
OTHER = """
from aoti_plugins import GraphPass, hookimpl

AOTI_PLUGINS_API = 1

def fails(program):
    raise ValueError("this is another plugin's")

@hookimpl(tryfirst=True)
def aoti_blob_name(sha256):
    return "aaa/" + sha256

@hookimpl
def aoti_graph_passes():
    return [GraphPass("aaa.fails", fails)]
"""


def install_other(folder: Path) -> Path:
    facts = folder / "aaa_plugin-1.0.dist-info"
    facts.mkdir(parents=True)
    (folder / "aaa_plugin.py").write_text(OTHER)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: aaa-plugin\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[aoti_plugins]\naaa = aaa_plugin\n")
    return folder


def run_tests(package: Package, marked: str, folder: Path) -> None:
    """Run a package's tests beside another plugin, which must play no part."""
    places = (package.site, install_other(folder / "other"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marked]
    done = subprocess.run(
        [*command, str(package.sources / "tests")],
        cwd=folder,  # where the sources do not hide what is installed
        env=without_packages(PYTHONPATH=os.pathsep.join(map(str, places))),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert re.search(r"\d+ passed", done.stdout), done.stdout
    if marked == "gpu":
        assert "skipped" not in done.stdout.splitlines()[-1], done.stdout


def test_what_it_prints_installs_what_builds_the_package(tmp_path: Path) -> None:
    """pip installs no build requirements where it does not isolate the build."""
    arguments = ["new-plugin", "acme", "--kind", "native", "--output", str(tmp_path / "a b")]
    (line,) = CliRunner().invoke(app, arguments).stdout.splitlines()[1:]
    assert line.startswith(f"Next: cd '{tmp_path}/a b' && pip install ")
    first, second = line.split(" && ")[1:3]
    made = (tmp_path / "a b" / "pyproject.toml").read_text()
    (needed,) = re.findall(r"^requires = \[(.*)\]$", made, re.MULTILINE)
    installed = [*shlex.split(first)[2:], *re.findall(r"aoti-plugins>=\S+?(?=\")", needed)]
    assert set(re.findall(r'"(.*?)"', needed)) <= set(installed)
    assert f'cmake.version = "{installed[1].removeprefix("cmake")}"' in made
    assert "ninja" in installed
    assert second == "pip install --no-build-isolation '.[test]'"
    readme = (tmp_path / "a b" / "README.md").read_text().replace('"', "'")
    assert first in readme
    assert second in readme


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("1st", "cannot be a package's name"),
        ("class", "cannot be a package's name"),
        ("a/b", "cannot be a package's name"),
        ("json", "is taken"),
        ("aten", "is taken"),
    ],
)
def test_names_that_do_not_do(name: str, message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["new-plugin", name, "--output", str(tmp_path / "new")])
    assert result.exit_code == 1
    assert message in result.output
    assert not (tmp_path / "new").exists()


def test_a_folder_with_something_in_it_stays(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = CliRunner().invoke(app, ["new-plugin", "mine", "--output", str(tmp_path)])
    assert result.exit_code == 1
    assert f"{tmp_path} is there already" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
