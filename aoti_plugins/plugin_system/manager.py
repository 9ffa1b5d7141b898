"""Calls the hooks of all plugins, checks what they return and reports contradictions.

Nothing else in aoti_plugins talks to a plugin. Plugins are asked in this order: those that the
program registered, the last one first; then the installed ones in the alphabetical order of their
distributions; our own last. ``tryfirst`` and ``trylast`` of a hookimpl go before that.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial, wraps
from graphlib import CycleError
from typing import TYPE_CHECKING, Any, TypeVar

from aoti_plugins.errors import AotiPluginsError, PluginConflictError, PluginError
from aoti_plugins.plugin_system.merging import conflict_message, merge_offers
from aoti_plugins.plugin_system.ordering import order_passes
from aoti_plugins.plugin_system.origin import Origin
from aoti_plugins.plugin_system.registry import PluginInfo, PluginRegistry
from aoti_plugins.types import CShim, FallbackKernel, GraphPass, ProgressEvent, Target

if TYPE_CHECKING:
    from executorch.exir.backend.backend_details import PreprocessResult
    from torch._ops import OpOverload
    from torch.export import ExportedProgram

__all__ = ["PluginInfo", "PluginManager", "RegisteredKernel", "get_manager"]

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True)
class RegisteredKernel:
    """One C shim of a fallback kernel, and who offers it.

    Attributes:
        kernel: the kernel.
        shim: one of its C shims.
        plugin: name of the plugin.
        origin: the distribution that one installs to get it; the plugin's name where it was
            registered by a program.
    """

    kernel: FallbackKernel
    shim: CShim
    plugin: str
    origin: str


class PluginManager(PluginRegistry):
    """The plugins of one process, or of one test, and one method per hook.

    Every method raises ``PluginError`` when a plugin raises or returns something of the wrong
    type, and ``PluginConflictError`` when plugins contradict each other.
    """

    @classmethod
    def inspect_installed(
        cls,
        block: Collection[str] = (),
        check_options: Callable[[Mapping[str, Any]], None] = lambda options: None,
        check_target: Callable[[Target], None] = lambda target: None,
    ) -> PluginManager:
        """Load what can be loaded; ``plugins()`` of the result holds the errors of the rest.

        Every collecting hook of every plugin is called, with no compile specs. A plugin that fails
        in one is taken out, so that the others can be looked at.

        Args:
            block: further entry-point or distribution names not to load.
            check_options: raises for options of one plugin that Inductor would not take.
            check_target: raises for a target that its device could not lower for.
        """
        manager = cls(load_entry_points=False)
        manager._load_installed(block)
        manager._take_out_failing(check_options, check_target)
        return manager

    def _take_out_failing(
        self,
        check_options: Callable[[Mapping[str, Any]], None],
        check_target: Callable[[Target], None],
    ) -> None:
        checks: dict[str, Callable[[str], Callable[[Any], object]]] = {
            "aoti_fallback_kernels": lambda device: _expect_items(FallbackKernel),
            "aoti_graph_passes": lambda device: _expect_items(GraphPass),
            "aoti_decompositions": lambda device: _expect_mapping,
            "aoti_inductor_options": lambda device: partial(_expect_options, check_options),
            "aoti_targets": lambda device: partial(_expect_targets, device, check_target),
        }
        errors: dict[str, dict[str, None]] = {}
        for hook_name, check in checks.items():
            for impl in self._implementations(hook_name):
                for device in self.devices():
                    arguments = {"device": device, "compile_specs": []}
                    try:
                        self._call(hook_name, impl, check(device), arguments)
                    except PluginError as error:
                        errors.setdefault(impl.plugin_name, {})[str(error)] = None
        for key, messages in errors.items():
            self._take_out(key, "\n\n".join(messages))

    def preprocess(
        self, device: str, edge_program: ExportedProgram, compile_specs: list[Any], method: str
    ) -> PreprocessResult:
        """Call ``aoti_preprocess``; an error if no plugin lowers for the device."""
        return self._first(
            "aoti_preprocess",
            _expect_preprocess_result,
            device=device,
            edge_program=edge_program,
            compile_specs=compile_specs,
            method=method,
        )[1]

    def fallback_kernels(self, device: str) -> dict[str, RegisteredKernel]:
        """Call ``aoti_fallback_kernels``; return the kernels by the names of their C shims."""
        found = self._each("aoti_fallback_kernels", _expect_items(FallbackKernel), device=device)
        return merge_offers(
            (
                (origin, shim.name, _registered(kernel, shim, origin))
                for origin, kernels in found
                for kernel in kernels
                for shim in kernel.c_shims
            ),
            lambda name: f"fallback kernel {name!r} for device {device!r} is provided by:",
        )

    def blob_name(self, kind: str, device: str, method: str, sha256: str) -> str:
        """Call ``aoti_blob_name``; an error if no plugin names the blob."""
        return self.namer_and_name(kind, device, method, sha256)[1]

    def namer_and_name(
        self, kind: str, device: str, method: str, sha256: str
    ) -> tuple[Origin, str]:
        """Call ``aoti_blob_name``; also return which plugin answered."""
        return self._first(
            "aoti_blob_name",
            _expect_blob_name,
            kind=kind,
            device=device,
            method=method,
            sha256=sha256,
        )

    def graph_passes(self, device: str, compile_specs: list[Any]) -> list[GraphPass]:
        """Call ``aoti_graph_passes``; return the passes in the order in which they run.

        A pass that raises is a ``PluginError`` then; a ``LoweringError`` stays what it is.
        """
        found = self._each(
            "aoti_graph_passes",
            _expect_items(GraphPass),
            device=device,
            compile_specs=compile_specs,
        )
        offers = [
            (origin, one.name, _named_in_errors(origin, one))
            for origin, passes in found
            for one in passes
        ]
        by_name = merge_offers(
            offers, lambda name: f"graph pass {name!r} for device {device!r} is provided by:"
        )
        try:
            return order_passes(list(by_name.values()))
        except CycleError as error:
            origins = {name: origin for origin, name, _ in offers}
            message = _cycle_message(device, error.args[1], origins)
            raise PluginConflictError((message,)) from error

    def decompositions(self, device: str) -> dict[OpOverload, Callable[..., Any]]:
        """Call ``aoti_decompositions``; return the decompositions of all plugins.

        One of another package that raises is a ``PluginError`` then.
        """
        found = self._each("aoti_decompositions", _expect_mapping, device=device)
        merged = merge_offers(
            (
                (origin, op, (origin, function))
                for origin, table in found
                for op, function in table.items()
            ),
            lambda op: f"decomposition of '{op}' for device {device!r} is provided by:",
            same=lambda one, other: one[1] is other[1],
            built_in_yields=True,
        )
        return {
            op: function if origin.is_own else _blamed(origin, op, function)
            for op, (origin, function) in merged.items()
        }

    def inductor_options(
        self,
        device: str,
        compile_specs: list[Any],
        check: Callable[[Mapping[str, Any]], None] = lambda options: None,
    ) -> dict[str, Any]:
        """Call ``aoti_inductor_options``; return the options of all plugins.

        Args:
            device: the device to lower for.
            compile_specs: the partitioner's options.
            check: raises for options of one plugin that Inductor would not take.
        """
        found = self._each(
            "aoti_inductor_options",
            partial(_expect_options, check),
            device=device,
            compile_specs=compile_specs,
        )
        return merge_offers(
            ((origin, name, value) for origin, options in found for name, value in options.items()),
            lambda name: f"Inductor option {name!r} for device {device!r} is set by:",
            same=lambda one, other: type(one) is type(other) and bool(one == other),
            show=lambda value: f": {value!r}",
        )

    def provider_of_option(self, device: str, compile_specs: list[Any], name: str) -> str:
        """Who sets one of Inductor's options, for messages."""
        found = self._each(
            "aoti_inductor_options", _expect_mapping, device=device, compile_specs=compile_specs
        )
        return next((str(origin) for origin, options in found if name in options), "the program")

    def targets(
        self, device: str, check: Callable[[Target], None] = lambda target: None
    ) -> dict[str, Target]:
        """Call ``aoti_targets``; return the targets by name.

        Args:
            device: the device to lower for.
            check: raises for a target that the device could not lower for.
        """
        found = self._each("aoti_targets", partial(_expect_targets, device, check), device=device)
        return merge_offers(
            ((origin, target.name, target) for origin, targets in found for target in targets),
            lambda name: f"target {name!r} for device {device!r} is provided by:",
        )

    def progress(self, event: ProgressEvent) -> None:
        """Call ``aoti_progress``; an observer that raises is logged and does no other harm."""
        for impl in self._implementations("aoti_progress"):
            try:
                self._call("aoti_progress", impl, lambda result: None, {"event": event})
            except PluginError as error:
                logger.warning("%s", error, exc_info=error)

    def conflicts(self) -> list[str]:
        """List everything in which the plugins contradict each other, on any device.

        Every collecting hook is called, with no compile specs. What a hook raises is listed too.
        """
        messages: dict[str, None] = {}  # a set that keeps its order
        for device in self.devices():
            calls: tuple[Callable[[], object], ...] = (
                partial(self.fallback_kernels, device),
                partial(self.graph_passes, device, []),
                partial(self.decompositions, device),
                partial(self.inductor_options, device, []),
                partial(self.targets, device),
            )
            for call in calls:
                try:
                    call()
                except PluginConflictError as error:
                    messages.update(dict.fromkeys(error.conflicts))
                except AotiPluginsError as error:
                    messages[str(error)] = None
        return list(messages)


def _registered(kernel: FallbackKernel, shim: CShim, origin: Origin) -> RegisteredKernel:
    return RegisteredKernel(kernel, shim, origin.name, origin.distribution or origin.name)


def _expect_preprocess_result(result: Any) -> PreprocessResult:
    if not hasattr(result, "processed_bytes"):
        raise TypeError(f"expected a PreprocessResult, found {_describe(result)}")
    checked: PreprocessResult = result
    return checked


def _expect_blob_name(result: object) -> str:
    if not isinstance(result, str):
        raise TypeError(f"expected a str, found {_describe(result)}")
    if not result or not result.isascii() or not result.isprintable():
        raise ValueError(f"a blob name must be printable ASCII and not empty, found {result!r}")
    return result


def _expect_mapping(result: object) -> Mapping[Any, Any]:
    if not isinstance(result, Mapping):
        raise TypeError(f"expected a mapping, found {_describe(result)}")
    return result


def _expect_items(kind: type[T]) -> Callable[[Any], list[T]]:
    def check(result: Any) -> list[T]:
        if isinstance(result, kind):
            raise TypeError(f"expected several {kind.__name__}, found one; return a list")
        items = list(result)
        for item in items:
            if not isinstance(item, kind):
                raise TypeError(f"expected items of type {kind.__name__}, found {_describe(item)}")
        return items

    return check


def _expect_options(
    check: Callable[[Mapping[str, Any]], None], result: object
) -> Mapping[str, Any]:
    options = _expect_mapping(result)
    check(options)
    return options


def _expect_targets(device: str, check: Callable[[Target], None], result: object) -> list[Target]:
    targets = _expect_items(Target)(result)
    for target in targets:
        if target.device != device:
            raise ValueError(
                f"expected targets for device {device!r}, "
                f"found {target.name!r} for {target.device!r}"
            )
        check(target)
    return targets


def _describe(value: object) -> str:
    return f"{value!r:.60} of type {type(value).__name__}"


def _recompile(program: ExportedProgram) -> None:
    """Let a pass find the Python code of the graphs: ours change graphs and leave it as it was."""
    for module in program.graph_module.modules():
        if hasattr(module, "recompile"):
            module.recompile()


def _named_in_errors(origin: Origin, graph_pass: GraphPass) -> GraphPass:
    what = f"graph pass {graph_pass.name!r}"

    @wraps(graph_pass.run)
    def run(program: ExportedProgram) -> ExportedProgram | None:
        if not origin.is_own:
            _recompile(program)
        try:
            result = graph_pass.run(program)
            if result is not None and not hasattr(result, "graph_module"):
                raise TypeError(f"expected an ExportedProgram or None, found {_describe(result)}")
            return result
        except AotiPluginsError:
            raise
        except Exception as error:
            raise _failed(what, origin, error) from error

    if graph_pass.handles is None:
        return replace(graph_pass, run=run)
    handles = _guarded(f"{what}, asked what it handles,", origin, graph_pass.handles)
    return replace(graph_pass, run=run, handles=handles)


@cache
def _blamed(origin: Origin, op: OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition whose errors name its plugin; one object for each, as tables are compared."""
    return _guarded(f"the decomposition of '{op}'", origin, function)


def _guarded(what: str, origin: Origin, function: Callable[..., T]) -> Callable[..., T]:
    @wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> T:
        try:
            return function(*args, **kwargs)
        except AotiPluginsError:
            raise
        except Exception as error:
            raise _failed(what, origin, error) from error

    return guarded


def _failed(what: str, origin: Origin, error: Exception) -> PluginError:
    return PluginError(
        f"{what} of {origin} failed: {type(error).__name__}: {error}\n{origin.remedy}"
    )


def _cycle_message(device: str, cycle: list[str], origins: Mapping[str, Origin]) -> str:
    return conflict_message(
        f"graph passes for device {device!r} cannot be ordered, "
        f"each must run before the next: {' -> '.join(cycle)}; they are provided by:",
        [f"{name!r}: {origins[name].provider}" for name in cycle[:-1]],
        [origins[name] for name in cycle[:-1]],
    )


_lock = threading.RLock()
_manager: PluginManager | None = None
_loading = False


def get_manager() -> PluginManager:
    """Return the manager of this process, with the installed plugins.

    The first call loads the plugins; later ones return the same object. When a plugin is broken
    every call raises, until it is fixed or blocked. May be called from several threads.

    Raises:
        PluginError: some installed plugins are broken, or a plugin calls this while it is imported.
    """
    global _manager, _loading
    with _lock:
        if _manager is None:
            if _loading:
                raise PluginError("get_manager() was called by a plugin while plugins are loaded")
            _loading = True
            try:
                _manager = PluginManager()
            finally:
                _loading = False
        return _manager
