"""``aoti-plugins new-plugin``."""

from __future__ import annotations

import keyword
import re
import shlex
import shutil
import sys
from pathlib import Path

import click

import aoti_plugins
from aoti_plugins.cli._options import PATH
from aoti_plugins.cli._text import echo
from aoti_plugins.destinations import check_folder, write_bytes
from aoti_plugins.errors import AotiPluginsError
from aoti_plugins.plugin_system.origin import normalize

KINDS = {
    "python": "a graph pass, an op that is decomposed, names of blobs",
    "triton": "an op with a Triton kernel",
    "native": "an op with kernels in C++ and CUDA, built with CMake",
}
_PLAIN_INSTALL = "pip install '.[test]'"
# CMake must find the aoti_plugins that is installed, which pip hides from a build by default; so it
# does not install what builds either.
_INSTALL = {
    "native": "pip install 'scikit-build-core>=0.11' 'cmake>=3.28' ninja && "
    "pip install --no-build-isolation '.[test]'"
}
_BUILT = ("__pycache__", ".pytest_cache", "build", "dist")


@click.command("new-plugin")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="python",
    show_default=True,
    help="; ".join(f"{kind}: {text}" for kind, text in KINDS.items()) + ".",
)
@click.option(
    "--output", type=PATH, help="Folder to make; the name in the current folder by default."
)
def command(name: str, kind: str, output: Path | None) -> None:
    """Make a package with hooks that builds, and whose tests pass.

    It is one of examples/plugins under the NAME, which becomes the distribution's, the module's and
    that of the namespace of its op.
    """
    folder = output or Path(normalize(name))
    files = make_package(name, kind, folder)
    echo(f"{folder}: {len(files)} files")
    echo(f"Next: cd {shlex.quote(str(folder))} && {_INSTALL.get(kind, _PLAIN_INSTALL)} && pytest")


def make_package(name: str, kind: str, folder: Path) -> list[Path]:
    """Write a package; return its files, relative to the folder.

    Raises:
        AotiPluginsError: the name cannot be a module's, the folder holds something, or it cannot be
            written; it is as it was before then.
    """
    distribution, module = _names(name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise AotiPluginsError(f"{folder} is there already; choose another one with --output")
    check_folder(folder)
    source = examples_dir() / kind
    texts = {path.relative_to(source): path.read_text("utf-8") for path in _sources(source)}

    def renamed(text: str) -> str:
        for old, new in (
            (f"acme_{kind}", module),
            (f"acme-{kind}", distribution),
            (f"ACME_{kind.upper()}", module.upper()),
        ):
            text = text.replace(old, new)
        return text

    renamed_texts = {Path(renamed(str(path))): renamed(text) for path, text in texts.items()}
    existed = folder.exists()
    try:
        for path, text in renamed_texts.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(folder / path, text.encode())
    except BaseException:
        _empty(folder, keep=existed)
        raise
    return list(renamed_texts)


def _empty(folder: Path, keep: bool) -> None:
    for path in folder.iterdir() if folder.exists() else ():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    if not keep and folder.exists():
        folder.rmdir()


def examples_dir() -> Path:
    """Return the folder of the example packages: the clone's, or what was installed of it.

    Raises:
        AotiPluginsError: it is in neither place.
    """
    roots = [Path(root) for root in aoti_plugins.__path__]
    clones = [root.parent for root in roots if (root.parent / "native/CMakeLists.txt").exists()]
    folders = [*(c / "examples/plugins" for c in clones), *(root / "examples" for root in roots)]
    for folder in folders:
        if all((folder / kind).is_dir() for kind in KINDS):
            return folder
    raise AotiPluginsError(
        f"the example packages are in none of {', '.join(map(str, folders))}; reinstall "
        "aoti-plugins with 'pip install --force-reinstall --no-deps aoti-plugins'"
    )


def _names(name: str) -> tuple[str, str]:
    distribution = normalize(name)
    module = distribution.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*", module) or keyword.iskeyword(module):
        raise AotiPluginsError(
            f"{name!r} cannot be a package's name: it begins with a letter and has letters, digits "
            "and '-', and is no word of Python's"
        )
    if module in sys.stdlib_module_names or module in ("aoti_plugins", "aten", "prim", "torch"):
        raise AotiPluginsError(f"the name {name!r} is taken, by Python or PyTorch; choose another")
    return distribution, module


def _sources(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and not any(part in _BUILT for part in path.relative_to(folder).parts)
    )
