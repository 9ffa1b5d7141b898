"""Plugins that come from distributions which pip installed: good, broken and contradicting ones."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from aoti_plugins.errors import PluginConflictError, PluginError
from aoti_plugins.plugin_system.manager import PluginInfo, PluginManager

Installed = Callable[..., None]
Load = Callable[..., PluginManager]

REPOSITORY = Path(__file__).parents[2]
DIGEST = "0a1b" * 16

IMPORT_ERROR = """\
plugin 'acme_import_error' of acme-import-error 0.1 cannot be imported from 'acme_import_error': \
ModuleNotFoundError: No module named 'acme_native_that_is_missing'
Upgrade acme-import-error, uninstall it, or block the plugin with \
AOTI_PLUGINS_BLOCK=acme_import_error."""

WRONG_ARGUMENT = """\
plugin 'wrong_argument' of acme-wrong-argument 2.0 is not usable:
  - hook 'aoti_blob_name' has no argument 'digest'; it has (kind, device, method, sha256)
  - hook 'aoti_targets' does not pass argument 'device' while it has a default value
Upgrade acme-wrong-argument, uninstall it, or block the plugin with \
AOTI_PLUGINS_BLOCK=wrong_argument."""

MISSPELT_HOOK = """\
plugin 'misspelt' of acme-misspelt-hook 0.4.1 is not usable:
  - hook 'aoti_fallback_kernel' does not exist; did you mean 'aoti_fallback_kernels'?
Upgrade acme-misspelt-hook, uninstall it, or block the plugin with AOTI_PLUGINS_BLOCK=misspelt."""

KERNEL_CLASH = """\
fallback kernel 'aoti_torch_cuda_sort_stable' for device 'cuda' is provided by:
  - plugin_a 1.2
  - plugin_b 0.3
Uninstall one of them, or block it with AOTI_PLUGINS_BLOCK=plugin_b."""

PASS_CLASH = """\
graph pass 'fuse_attention' for device 'cuda' is provided by:
  - plugin_a 1.2
  - plugin_b 0.3
Uninstall one of them, or block it with AOTI_PLUGINS_BLOCK=plugin_b."""

DECOMPOSITION_CLASH = """\
decomposition of 'aten.square.default' for device 'cpu' is provided by:
  - plugin_a 1.2
  - plugin_b 0.3
Uninstall one of them, or block it with AOTI_PLUGINS_BLOCK=plugin_b."""

OPTION_CLASH = """\
Inductor option 'cpp.threads' for device 'cpu' is set by:
  - plugin_a 1.2: 4
  - plugin_b 0.3: 8
Uninstall one of them, or block it with AOTI_PLUGINS_BLOCK=plugin_b."""

TARGET_CLASH = """\
target 'orin' for device 'cuda' is provided by:
  - plugin_a 1.2
  - plugin_b 0.3
Uninstall one of them, or block it with AOTI_PLUGINS_BLOCK=plugin_b."""

BROKEN = {
    "import_error": IMPORT_ERROR,
    "wrong_argument": WRONG_ARGUMENT,
    "misspelt_hook": MISSPELT_HOOK,
}


def foreign(manager: PluginManager) -> list[PluginInfo]:
    return [info for info in manager.plugins() if info.distribution != "aoti-plugins"]


def test_good_plugin(installed: Installed, load: Load) -> None:
    installed("good")
    manager = load()
    assert foreign(manager) == [
        PluginInfo("acme", "acme-good", "1.2.0", ("aoti_blob_name", "aoti_graph_passes"))
    ]
    assert [p.name for p in manager.graph_passes("cpu", [])] == ["acme.count_nodes"]
    assert manager.graph_passes("cuda", []) == []
    assert manager.blob_name("weights", "cpu", "forward", DIGEST) == f"acme/{DIGEST}"
    assert manager.conflicts() == []


def test_good_plugin_goes_before_the_built_in_names(installed: Installed) -> None:
    installed("good")
    manager = PluginManager(load_entry_points=False)
    import acme_good

    from aoti_plugins import blob_names

    manager.register(acme_good, "acme")
    manager.register(blob_names, "blob_names")  # asked last though it came last
    assert manager.blob_name("weights", "cpu", "forward", DIGEST) == f"acme/{DIGEST}"
    assert manager.blob_name("so", "cpu", "forward", DIGEST) == f"{DIGEST}_so_blob"


@pytest.mark.parametrize("sample", BROKEN)
def test_broken_plugin(sample: str, installed: Installed, load: Load) -> None:
    installed(sample)
    with pytest.raises(PluginError) as caught:
        load()
    assert str(caught.value) == BROKEN[sample]


def test_import_error_is_chained(installed: Installed, load: Load) -> None:
    installed("import_error")
    with pytest.raises(PluginError) as caught:
        load()
    cause = caught.value.__cause__
    assert isinstance(cause, PluginError)
    assert isinstance(cause.__cause__, ModuleNotFoundError)


def test_all_broken_plugins_are_reported_at_once(installed: Installed, load: Load) -> None:
    installed(*BROKEN, "good")
    with pytest.raises(PluginError) as caught:
        load()
    assert str(caught.value) == "\n\n".join([IMPORT_ERROR, MISSPELT_HOOK, WRONG_ARGUMENT])


@pytest.mark.parametrize(
    "name", ["misspelt", "Misspelt", "acme-misspelt-hook", "acme_misspelt.hook", " misspelt "]
)
def test_block(name: str, installed: Installed, load: Load) -> None:
    installed("misspelt_hook", "good")
    assert foreign(load(name)) == [
        PluginInfo("acme", "acme-good", "1.2.0", ("aoti_blob_name", "aoti_graph_passes")),
        PluginInfo("misspelt", "acme-misspelt-hook", "0.4.1", blocked=True),
    ]


def test_block_by_environment(
    installed: Installed, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed("misspelt_hook", "import_error", "good")
    monkeypatch.setenv("AOTI_PLUGINS_BLOCK", "misspelt, acme-import-error,")
    assert [info.blocked for info in foreign(load())] == [False, True, True]


def test_a_blocked_plugin_is_not_imported(installed: Installed, load: Load) -> None:
    installed("good")
    load("acme")
    assert "acme_good" not in sys.modules


def test_blocking_nothing_is_logged(
    installed: Installed, load: Load, caplog: pytest.LogCaptureFixture
) -> None:
    installed("good")
    with caplog.at_level(logging.WARNING, "aoti_plugins"):
        load("acme", "acne")
    (record,) = caplog.records
    assert record.getMessage().startswith("nothing to block: no installed plugin is called acne")


def test_no_answer_names_the_blocked(installed: Installed, load: Load) -> None:
    installed("good")
    with pytest.raises(PluginError) as caught:
        load().blob_name("so", "cpu", "forward", DIGEST)
    lines = str(caught.value).splitlines()
    assert lines[0] == (
        "no plugin answers hook 'aoti_blob_name' "
        f"(kind='so', device='cpu', method='forward', sha256='{DIGEST}')."
    )
    assert lines[1].startswith("Asked: acme. Blocked: ")
    assert lines[2] == "Install a plugin that answers, or unblock it."


def test_lenient_loading_keeps_the_errors(installed: Installed) -> None:
    installed(*BROKEN, "good")
    manager = PluginManager.inspect_installed(block=("aoti-plugins",))
    assert {info.name: info.error for info in foreign(manager)} == {
        "acme": None,
        "acme_import_error": IMPORT_ERROR,
        "misspelt": MISSPELT_HOOK,
        "wrong_argument": WRONG_ARGUMENT,
    }
    assert [p.name for p in manager.graph_passes("cpu", [])] == ["acme.count_nodes"]


def test_clash_of_two_plugins(installed: Installed, load: Load) -> None:
    installed("clash_a", "clash_b")
    manager = load()
    calls: dict[str, Callable[[], object]] = {
        KERNEL_CLASH: lambda: manager.fallback_kernels("cuda"),
        PASS_CLASH: lambda: manager.graph_passes("cuda", []),
        DECOMPOSITION_CLASH: lambda: manager.decompositions("cpu"),
        OPTION_CLASH: lambda: manager.inductor_options("cpu", []),
        TARGET_CLASH: lambda: manager.targets("cuda"),
    }
    for message, call in calls.items():
        with pytest.raises(PluginConflictError) as caught:
            call()
        assert str(caught.value) == message
        assert caught.value.conflicts == (message,)
    assert manager.conflicts() == [
        DECOMPOSITION_CLASH,
        OPTION_CLASH,
        KERNEL_CLASH,
        PASS_CLASH,
        TARGET_CLASH,
    ]


def test_blocking_one_side_ends_the_clash(installed: Installed, load: Load) -> None:
    installed("clash_a", "clash_b")
    manager = load("plugin_b")
    assert manager.conflicts() == []
    assert manager.fallback_kernels("cuda")["aoti_torch_cuda_sort_stable"].plugin == "plugin_a"
    assert manager.inductor_options("cpu", []) == {"cpp.threads": 4, "max_autotune": True}


@pytest.mark.parametrize("order", [("clash_a", "clash_b", "good"), ("good", "clash_b", "clash_a")])
def test_order_does_not_depend_on_the_path(
    order: tuple[str, ...], installed: Installed, load: Load
) -> None:
    installed(*order)
    assert [info.name for info in foreign(load())] == ["acme", "plugin_a", "plugin_b"]


USE_GET_MANAGER = """
import json, sys
from aoti_plugins import get_manager
from aoti_plugins.errors import PluginError
try:
    names = [info.name for info in get_manager().plugins() if not info.blocked]
    assert get_manager() is get_manager()
    print(json.dumps(names))
except PluginError as error:
    print(json.dumps(str(error)))
"""


@pytest.mark.parametrize(
    ("block", "expected"),
    [("aoti-plugins", IMPORT_ERROR), ("aoti-plugins,acme_import_error", ["acme"])],
)
def test_fresh_process(block: str, expected: object, install_sample: Callable[[str], Path]) -> None:
    folders = [install_sample("good"), install_sample("import_error"), REPOSITORY]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
        "AOTI_PLUGINS_BLOCK": block,
    }
    done = subprocess.run(
        [sys.executable, "-c", USE_GET_MANAGER],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == expected
