"""The manager: what it accepts from plugins, and what it says when it does not."""

from __future__ import annotations

import logging
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aoti_plugins.errors import LoweringError, PluginConflictError, PluginError
from aoti_plugins.hooks import hookimpl
from aoti_plugins.plugin_system import manager as manager_module
from aoti_plugins.plugin_system.manager import PluginInfo, PluginManager, get_manager
from aoti_plugins.types import CShim, FallbackKernel, GraphPass, ProgressEvent, Target

EVENT = ProgressEvent("compile", "start", "cpu", "forward", 0, 1)
DIGEST = "0a1b" * 16
MM = CShim("aoti_torch_cpu_mm_out", "AOTITorchError aoti_torch_cpu_mm_out(AtenTensorHandle out)")
BMM = CShim("aoti_torch_cpu_bmm_out", "AOTITorchError aoti_torch_cpu_bmm_out(AtenTensorHandle out)")


def plugin(**functions: Callable[..., object]) -> types.SimpleNamespace:
    """Make a plugin out of functions named like hooks."""
    return types.SimpleNamespace(**{name: hookimpl(f) for name, f in functions.items()})


def returns(value: object) -> Callable[[], object]:
    return lambda: value


def fails(error: BaseException) -> Callable[[], object]:
    def function() -> object:
        raise error

    return function


def graph_pass(name: str, before: tuple[str, ...] = ()) -> GraphPass:
    return GraphPass(name, lambda program: None, before)


@pytest.fixture
def manager() -> PluginManager:
    return PluginManager(load_entry_points=False)


# Registering


def test_plugins_lists_in_the_order_they_are_asked(manager: PluginManager) -> None:
    manager.register(plugin(aoti_targets=returns(None)), "first")
    manager.register(plugin(aoti_progress=lambda event: None), "second")
    assert manager.plugins() == [
        PluginInfo("second", None, None, ("aoti_progress",)),
        PluginInfo("first", None, None, ("aoti_targets",)),
    ]


def test_name_in_use(manager: PluginManager) -> None:
    manager.register(plugin(aoti_targets=returns(None)), "mine")
    with pytest.raises(PluginError) as caught:
        manager.register(plugin(aoti_targets=returns(None)), "mine")
    assert str(caught.value) == "a plugin named 'mine' is registered already; use another name"


def test_same_object_twice(manager: PluginManager) -> None:
    one = types.ModuleType("one")
    one.aoti_targets = hookimpl(returns(None))  # type: ignore[attr-defined]
    manager.register(one, "mine")
    with pytest.raises(PluginError) as caught:
        manager.register(one, "again")
    assert str(caught.value) == (
        "plugin 'again' is the same object as plugin 'mine'; offer it once\n"
        "Fix plugin 'again', or do not register it."
    )
    assert [info.name for info in manager.plugins()] == ["mine"]


def test_registered_ends_with_the_block(manager: PluginManager) -> None:
    names = plugin(aoti_blob_name=returns("mine"))
    with manager.registered(names, "names"):
        assert manager.blob_name("so", "cpu", "forward", DIGEST) == "mine"
    assert manager.plugins() == []
    with pytest.raises(PluginError, match="no plugin answers"):
        manager.blob_name("so", "cpu", "forward", DIGEST)
    manager.register(names, "names")


def test_unregister_unknown(manager: PluginManager) -> None:
    with pytest.raises(PluginError) as caught:
        manager.unregister("mine")
    assert str(caught.value) == "no plugin named 'mine' was registered by this program"


class Unmarked:
    def aoti_targets(self, device: str) -> list[Target]:
        return []


class Wrapper:
    @hookimpl(wrapper=True)
    def aoti_preprocess(self) -> Iterator[None]:
        yield


class Stars:
    @hookimpl
    def aoti_targets(self, *args: object) -> list[Target]:
        return []


class Unrelated:
    @hookimpl
    def configure_everything(self) -> None:
        pass


class Newer:
    @hookimpl(optionalhook=True)
    def aoti_hook_of_a_later_version(self) -> None:
        pass


class Renamed:
    @hookimpl(specname="aoti_blob_name")
    def names(self, kind: str) -> str:
        return f"renamed_{kind}"


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        (Unmarked(), "function 'aoti_targets' lacks @hookimpl, so nobody would call it"),
        (Wrapper(), "hook 'aoti_preprocess' is implemented as a wrapper, which is not supported"),
        (Stars(), "hook 'aoti_targets' never fills argument '*args'"),
        (object(), "it implements no hook"),
        (Renamed, "it is a class; offer a module, or an instance of the class"),
        (
            Unrelated(),
            "hook 'configure_everything' does not exist; there are aoti_preprocess, "
            "aoti_fallback_kernels, aoti_blob_name, aoti_graph_passes, aoti_decompositions, "
            "aoti_inductor_options, aoti_targets, aoti_progress",
        ),
    ],
)
def test_plugins_that_do_not_fit(manager: PluginManager, bad: object, problem: str) -> None:
    with pytest.raises(PluginError) as caught:
        manager.register(bad, "bad")
    assert str(caught.value) == (
        f"plugin 'bad' is not usable:\n  - {problem}\nFix plugin 'bad', or do not register it."
    )
    assert manager.plugins() == []


def test_optional_and_renamed_hooks(manager: PluginManager) -> None:
    manager.register(Newer(), "newer")
    manager.register(Renamed(), "renamed")
    assert manager.blob_name("so", "cpu", "forward", DIGEST) == "renamed_so"


# Asking


def test_the_plugin_registered_last_decides(manager: PluginManager) -> None:
    manager.register(plugin(aoti_blob_name=returns("early")), "early")
    manager.register(plugin(aoti_blob_name=returns("late")), "late")
    manager.register(plugin(aoti_blob_name=returns(None)), "undecided")
    assert manager.blob_name("so", "cpu", "forward", DIGEST) == "late"


def test_first_result_does_not_ask_further(manager: PluginManager) -> None:
    manager.register(plugin(aoti_blob_name=fails(RuntimeError("asked"))), "early")
    manager.register(plugin(aoti_blob_name=returns("late")), "late")
    assert manager.blob_name("so", "cpu", "forward", DIGEST) == "late"


def test_nobody_answers(manager: PluginManager) -> None:
    manager.register(plugin(aoti_preprocess=returns(None)), "asked")
    with pytest.raises(PluginError) as caught:
        manager.preprocess("mps", None, [], "forward")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "no plugin answers hook 'aoti_preprocess' (device='mps', method='forward').\n"
        "Asked: asked. Blocked: none.\n"
        "Install a plugin that answers, or unblock it."
    )


def test_preprocess_passes_everything_on(manager: PluginManager) -> None:
    seen: list[object] = []

    def aoti_preprocess(device: str, edge_program: Any, compile_specs: Any, method: str) -> object:
        seen.extend([device, edge_program, compile_specs, method])
        return types.SimpleNamespace(processed_bytes=b"payload")

    manager.register(plugin(aoti_preprocess=aoti_preprocess), "mine")
    program: Any = object()
    assert manager.preprocess("cpu", program, ["spec"], "forward").processed_bytes == b"payload"
    assert seen == ["cpu", program, ["spec"], "forward"]


def test_lowering_errors_stay_what_they_are(manager: PluginManager) -> None:
    error = LoweringError("node 'mm' has no kernel")
    manager.register(plugin(aoti_preprocess=fails(error)), "mine")
    with pytest.raises(LoweringError) as caught:
        manager.preprocess("cpu", None, [], "forward")  # type: ignore[arg-type]
    assert caught.value is error


def test_fallback_kernels_are_found_by_shim(manager: PluginManager) -> None:
    both = FallbackKernel("aten::mm.out", (MM, BMM))
    manager.register(plugin(aoti_fallback_kernels=returns([both])), "mine")
    found = manager.fallback_kernels("cpu")
    assert list(found) == ["aoti_torch_cpu_mm_out", "aoti_torch_cpu_bmm_out"]
    assert [(k.kernel, k.shim, k.plugin) for k in found.values()] == [
        (both, MM, "mine"),
        (both, BMM, "mine"),
    ]


def test_passes_of_several_plugins(manager: PluginManager) -> None:
    manager.register(plugin(aoti_graph_passes=returns([graph_pass("x"), graph_pass("y")])), "a")
    manager.register(plugin(aoti_graph_passes=returns((graph_pass("z", ("x",)),))), "b")
    manager.register(plugin(aoti_graph_passes=returns(iter([graph_pass("w", ("q",))]))), "c")
    assert [p.name for p in manager.graph_passes("cpu", [])] == ["w", "z", "x", "y"]


PROGRAM: Any = types.SimpleNamespace(graph_module=types.SimpleNamespace(modules=lambda: []))


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (fails(KeyError("mm")), "KeyError: 'mm'"),
        (returns(3), "TypeError: expected an ExportedProgram or None, found 3 of type int"),
    ],
)
def test_a_pass_that_fails_is_named(
    manager: PluginManager, run: Callable[[], object], problem: str
) -> None:
    bad: Any = GraphPass("acme.fuse", lambda program: run())  # type: ignore[arg-type, return-value]
    manager.register(plugin(aoti_graph_passes=returns([bad])), "mine")
    (found,) = manager.graph_passes("cpu", [])
    with pytest.raises(PluginError) as caught:
        found.run(PROGRAM)
    assert str(caught.value) == (
        f"graph pass 'acme.fuse' of plugin 'mine' failed: {problem}\n"
        "Fix plugin 'mine', or do not register it."
    )


def test_a_pass_may_refuse_a_program(manager: PluginManager) -> None:
    error = LoweringError("this program has an odd shape")
    refuse: Any = fails(error)
    bad = GraphPass("acme.fuse", lambda program: refuse())
    manager.register(plugin(aoti_graph_passes=returns([bad])), "mine")
    (found,) = manager.graph_passes("cpu", [])
    with pytest.raises(LoweringError) as caught:
        found.run(PROGRAM)
    assert caught.value is error


def test_equal_options_agree(manager: PluginManager) -> None:
    manager.register(plugin(aoti_inductor_options=returns({"a": [1], "b": 2})), "one")
    manager.register(plugin(aoti_inductor_options=returns({"a": [1]})), "two")
    assert manager.inductor_options("cpu", []) == {"a": [1], "b": 2}


def test_one_and_true_do_not_agree(manager: PluginManager) -> None:
    manager.register(plugin(aoti_inductor_options=returns({"a": 1})), "one")
    manager.register(plugin(aoti_inductor_options=returns({"a": True})), "two")
    with pytest.raises(PluginConflictError) as caught:
        manager.inductor_options("cpu", [])
    assert str(caught.value) == (
        "Inductor option 'a' for device 'cpu' is set by:\n"
        "  - plugin 'one', registered by the running program: 1\n"
        "  - plugin 'two', registered by the running program: True\n"
        "Register only one of them."
    )


def test_one_decomposition_may_come_twice(manager: PluginManager) -> None:
    for name in ("one", "two"):
        manager.register(plugin(aoti_decompositions=returns({"op": max})), name)
    assert manager.decompositions("cpu")["op"](3, 1) == 3


# Contradictions


def test_all_conflicts_of_a_hook_are_reported(manager: PluginManager) -> None:
    targets = [Target("b", "cpu", "x86_64"), Target("a", "cpu", "x86_64")]
    manager.register(plugin(aoti_targets=returns(targets)), "one")
    manager.register(plugin(aoti_targets=returns(targets)), "two")
    with pytest.raises(PluginConflictError) as caught:
        manager.targets("cpu")
    assert [text.splitlines()[0] for text in caught.value.conflicts] == [
        "target 'a' for device 'cpu' is provided by:",
        "target 'b' for device 'cpu' is provided by:",
    ]
    assert str(caught.value) == "\n\n".join(caught.value.conflicts)


def test_one_plugin_contradicts_itself(manager: PluginManager) -> None:
    kernels = [FallbackKernel("aten::mm", (MM,)), FallbackKernel("aten::mm.out", (MM,))]
    manager.register(plugin(aoti_fallback_kernels=returns(kernels)), "mine")
    with pytest.raises(PluginConflictError) as caught:
        manager.fallback_kernels("cpu")
    assert str(caught.value) == (
        "fallback kernel 'aoti_torch_cpu_mm_out' for device 'cpu' is provided by:\n"
        "  - plugin 'mine', registered by the running program\n"
        "  - plugin 'mine', registered by the running program\n"
        "Fix plugin 'mine', or do not register it."
    )


def test_cycle_of_passes(manager: PluginManager) -> None:
    manager.register(plugin(aoti_graph_passes=returns([graph_pass("x", ("y",))])), "one")
    manager.register(plugin(aoti_graph_passes=returns([graph_pass("y", ("x",))])), "two")
    with pytest.raises(PluginConflictError) as caught:
        manager.graph_passes("cpu", [])
    first, *rest = str(caught.value).splitlines()
    start = "graph passes for device 'cpu' cannot be ordered, each must run before the next: "
    assert first in (
        f"{start}x -> y -> x; they are provided by:",
        f"{start}y -> x -> y; they are provided by:",
    )
    assert rest == [
        "  - 'x': plugin 'one', registered by the running program",
        "  - 'y': plugin 'two', registered by the running program",
        "Register only one of them.",
    ]


def test_conflicts_lists_failures_too(manager: PluginManager) -> None:
    manager.register(plugin(aoti_targets=fails(OSError("no driver"))), "mine")
    assert manager.conflicts() == [
        f"plugin 'mine' failed in hook 'aoti_targets' (device='{device}'): OSError: no driver\n"
        "Fix plugin 'mine', or do not register it."
        for device in ("cpu", "cuda", "mps")
    ]


# Failures


def ask_blob_name(manager: PluginManager) -> object:
    return manager.blob_name("so", "cpu", "forward", DIGEST)


def ask_preprocess(manager: PluginManager) -> object:
    return manager.preprocess("cpu", None, [], "forward")  # type: ignore[arg-type]


CALLS: dict[str, tuple[Callable[[PluginManager], object], str]] = {
    "aoti_preprocess": (ask_preprocess, "(device='cpu', method='forward')"),
    "aoti_fallback_kernels": (lambda m: m.fallback_kernels("cpu"), "(device='cpu')"),
    "aoti_blob_name": (
        ask_blob_name,
        f"(kind='so', device='cpu', method='forward', sha256='{DIGEST}')",
    ),
    "aoti_graph_passes": (lambda m: m.graph_passes("cpu", []), "(device='cpu')"),
    "aoti_decompositions": (lambda m: m.decompositions("cpu"), "(device='cpu')"),
    "aoti_inductor_options": (lambda m: m.inductor_options("cpu", []), "(device='cpu')"),
    "aoti_targets": (lambda m: m.targets("cpu"), "(device='cpu')"),
}


@pytest.mark.parametrize("hook_name", CALLS)
def test_a_hook_that_raises(manager: PluginManager, hook_name: str) -> None:
    error = RuntimeError("boom")
    manager.register(plugin(**{hook_name: fails(error)}), "mine")
    call, arguments = CALLS[hook_name]
    with pytest.raises(PluginError) as caught:
        call(manager)
    assert str(caught.value) == (
        f"plugin 'mine' failed in hook '{hook_name}' {arguments}: RuntimeError: boom\n"
        "Fix plugin 'mine', or do not register it."
    )
    assert caught.value.__cause__ is error


WRONG_RESULTS = [
    ("aoti_preprocess", b"x", "TypeError: expected a PreprocessResult, found b'x' of type bytes"),
    ("aoti_fallback_kernels", 3, "TypeError: 'int' object is not iterable"),
    (
        "aoti_fallback_kernels",
        ["aten::mm"],
        "TypeError: expected items of type FallbackKernel, found 'aten::mm' of type str",
    ),
    ("aoti_blob_name", b"x", "TypeError: expected a str, found b'x' of type bytes"),
    (
        "aoti_blob_name",
        "a\nb",
        "ValueError: a blob name must be printable ASCII and not empty, found 'a\\nb'",
    ),
    (
        "aoti_blob_name",
        "",
        "ValueError: a blob name must be printable ASCII and not empty, found ''",
    ),
    (
        "aoti_graph_passes",
        graph_pass("x"),
        "TypeError: expected several GraphPass, found one; return a list",
    ),
    ("aoti_decompositions", [], "TypeError: expected a mapping, found [] of type list"),
    ("aoti_inductor_options", "x", "TypeError: expected a mapping, found 'x' of type str"),
    (
        "aoti_targets",
        [Target("h100", "cuda", "x86_64")],
        "ValueError: expected targets for device 'cpu', found 'h100' for 'cuda'",
    ),
]


@pytest.mark.parametrize(("hook_name", "result", "problem"), WRONG_RESULTS)
def test_wrong_results(
    manager: PluginManager, hook_name: str, result: object, problem: str
) -> None:
    manager.register(plugin(**{hook_name: returns(result)}), "mine")
    call, arguments = CALLS[hook_name]
    with pytest.raises(PluginError) as caught:
        call(manager)
    assert str(caught.value) == (
        f"plugin 'mine' failed in hook '{hook_name}' {arguments}: {problem}\n"
        "Fix plugin 'mine', or do not register it."
    )


def test_generators_fail_in_the_name_of_their_plugin(manager: PluginManager) -> None:
    def aoti_targets(device: str) -> Iterator[Target]:
        yield Target("generic", device, "x86_64")
        raise OSError("no driver")

    manager.register(plugin(aoti_targets=aoti_targets), "mine")
    with pytest.raises(PluginError, match="plugin 'mine' failed in hook 'aoti_targets'"):
        manager.targets("cpu")


def test_a_failing_observer_is_logged(
    manager: PluginManager, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[ProgressEvent] = []
    manager.register(plugin(aoti_progress=lambda event: seen.append(event)), "good")
    manager.register(plugin(aoti_progress=fails(RuntimeError("no terminal"))), "bad")
    with caplog.at_level(logging.WARNING, "aoti_plugins"):
        manager.progress(EVENT)
    assert seen == [EVENT]
    (record,) = caplog.records
    assert record.getMessage() == (
        "plugin 'bad' failed in hook 'aoti_progress': RuntimeError: no terminal\n"
        "Fix plugin 'bad', or do not register it."
    )
    assert record.exc_info


def test_an_interrupt_gets_through(manager: PluginManager) -> None:
    manager.register(plugin(aoti_progress=fails(KeyboardInterrupt())), "mine")
    with pytest.raises(KeyboardInterrupt):
        manager.progress(EVENT)


# The manager of the process


@pytest.fixture
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_module, "_manager", None)


@pytest.mark.usefixtures("fresh_process")
def test_threads_share_one_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    class Slow(PluginManager):
        def __init__(self) -> None:
            made.append(self)
            time.sleep(0.05)
            super().__init__(load_entry_points=False)

    monkeypatch.setattr(manager_module, "PluginManager", Slow)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(get_manager())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert found == made * 8


@pytest.mark.usefixtures("fresh_process")
def test_a_failure_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [PluginError("broken"), PluginError("broken"), None]

    def make() -> PluginManager:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return PluginManager(load_entry_points=False)

    monkeypatch.setattr(manager_module, "PluginManager", make)
    for _ in range(2):
        with pytest.raises(PluginError, match="broken"):
            get_manager()
    assert get_manager() is get_manager()


@pytest.mark.usefixtures("fresh_process")
def test_a_plugin_that_asks_while_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manager_module, "PluginManager", get_manager)
    with pytest.raises(PluginError) as caught:
        get_manager()
    assert str(caught.value) == "get_manager() was called by a plugin while plugins are loaded"
