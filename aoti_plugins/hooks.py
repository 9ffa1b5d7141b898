"""The hooks of aoti_plugins: what a plugin may implement, and the marker that says it does.

A plugin is a module, or any object, whose functions carry ``@hookimpl`` and have the names below.
It may leave out arguments that it does not use. A package offers it under the entry-point group
``aoti_plugins``. Hooks are called on the thread that lowers, possibly on several threads at once,
and only through ``aoti_plugins.plugin_system``.
"""

# mypy: disable-error-code="empty-body"

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pluggy

from aoti_plugins.types import FallbackKernel, GraphPass, ProgressEvent, Target

if TYPE_CHECKING:
    from executorch.exir.backend.backend_details import PreprocessResult
    from torch._ops import OpOverload
    from torch.export import ExportedProgram

hookspec = pluggy.HookspecMarker("aoti_plugins")
hookimpl = pluggy.HookimplMarker("aoti_plugins")


@hookspec(firstresult=True)
def aoti_preprocess(
    device: str, edge_program: ExportedProgram, compile_specs: list[Any], method: str
) -> PreprocessResult | None:
    """Lower one partition to a delegate, in place of the built-in pipeline.

    Called once per partition by the device's backend, after partitioning. The first plugin that
    returns a result decides, and no other one is asked; ``None`` leaves the partition to the next
    plugin. The built-in pipelines are plugins that answer last.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"mps"``, or one of another package.
        edge_program: the partition, in the edge dialect. A plugin that returns ``None`` must not
            have changed it. Its tensors are the model's own, and must not be written to.
        compile_specs: the delegate's compile specs, as the partitioner made them.
        method: name of the exported method; two partitions of one method pass the same value.

    Returns:
        An ``executorch`` ``PreprocessResult``. Its ``processed_bytes`` must be what the runtime of
        the backend reads: a payload as in ``docs/payload.md``.

    Raises:
        LoweringError: this partition cannot be lowered. Raised as it is; any other exception
            becomes a ``PluginError`` that names the plugin.

    Example:
        >>> from executorch.exir.backend.backend_details import PreprocessResult
        >>> from aoti_plugins.hooks import hookimpl
        >>> from aoti_plugins import PluginManager
        >>> class Cached:
        ...     results = {"forward": PreprocessResult(processed_bytes=b"payload")}
        ...
        ...     @hookimpl
        ...     def aoti_preprocess(self, method):
        ...         return self.results.get(method)
        >>> manager = PluginManager(load_entry_points=False)
        >>> manager.register(Cached(), "cached")
        >>> manager.preprocess("cpu", None, [], "forward").processed_bytes
        b'payload'
    """


@hookspec
def aoti_fallback_kernels(device: str) -> Iterable[FallbackKernel]:
    """Offer kernels for ops that Inductor does not generate.

    Called by the partitioner, which leaves an op outside the delegate when nothing can compute it,
    and by the lowering, which checks every C shim that the compiled code calls. May be called often
    and must give equal kernels each time. The kernels of all plugins count. Two kernels with the
    same C shim name on one device are an error that names both plugins, whatever their dtypes.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"mps"``, or one of another package.

    Returns:
        The plugin's kernels for this device; empty, or ``None``, when it has none.

    Raises:
        Exception: becomes a ``PluginError`` that names the plugin; nothing is lowered.

    Example:
        >>> from aoti_plugins.hooks import hookimpl
        >>> from aoti_plugins import PluginManager
        >>> from aoti_plugins.types import CShim, FallbackKernel, SharedLibrary
        >>> class Kernels:
        ...     @hookimpl
        ...     def aoti_fallback_kernels(self, device):
        ...         if device == "cpu":
        ...             yield FallbackKernel(
        ...                 op="acme::gelu",
        ...                 c_shims=(
        ...                     CShim(
        ...                         "aoti_torch_cpu_acme_gelu",
        ...                         "AOTITorchError aoti_torch_cpu_acme_gelu("
        ...                         "AtenTensorHandle self, AtenTensorHandle* ret0)",
        ...                     ),
        ...                 ),
        ...                 dtypes=("float32", "bfloat16"),
        ...                 provider=SharedLibrary("/opt/acme/libacme.so", "libacme.so", "2.1"),
        ...             )
        >>> manager = PluginManager(load_entry_points=False)
        >>> manager.register(Kernels(), "acme")
        >>> manager.fallback_kernels("cpu")["aoti_torch_cpu_acme_gelu"].kernel.op
        'acme::gelu'
        >>> manager.fallback_kernels("cuda")
        {}
    """


@hookspec(firstresult=True)
def aoti_blob_name(kind: str, device: str, method: str, sha256: str) -> str | None:
    """Name one blob of a delegate in the program's named data.

    Called once per blob at the end of a lowering. The first plugin that returns a string decides;
    ``None`` leaves the choice to the next plugin. The built-in plugin ``blob_names`` answers last,
    with ``{sha256}_{kind}_blob``.

    Args:
        kind: ``"so"`` or ``"weights"``.
        device: ``"cpu"``, ``"cuda"``, ``"mps"``, or one of another package.
        method: name of the exported method; two partitions of one method pass the same value.
        sha256: digest of the stored bytes, 64 lower-case hex digits.

    Returns:
        Printable ASCII, unique in the program: equal names need equal bytes. A ``BlobName`` also
        says in which external data file the blob goes.

    Raises:
        Exception: becomes a ``PluginError`` that names the plugin; nothing is lowered.

    Example:
        >>> from aoti_plugins.hooks import hookimpl
        >>> from aoti_plugins import PluginManager
        >>> class Names:
        ...     @hookimpl
        ...     def aoti_blob_name(self, kind, sha256):
        ...         return f"acme/{sha256}" if kind == "weights" else None
        >>> manager = PluginManager(load_entry_points=False)
        >>> manager.register(Names(), "acme")
        >>> manager.blob_name("weights", "cpu", "forward", "0af1" * 16)[:12]
        'acme/0af10af'
    """


@hookspec
def aoti_graph_passes(device: str, compile_specs: list[Any]) -> Iterable[GraphPass]:
    """Add passes over the exported program of each partition.

    Called once per partition, before the passes run and before decompositions. The passes of all
    plugins run, in an order that respects every ``before`` and ``after``; where those leave a
    choice, in the order in which the plugins are asked, and a plugin's own in the order it gives
    them. Two passes with one name, or a cycle, are an error that names the plugins. A pass that
    raises later is a ``PluginError`` too, unless it raises a ``LoweringError``.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"mps"``, or one of another package.
        compile_specs: the delegate's compile specs, as the partitioner made them.

    Returns:
        The plugin's passes; empty, or ``None``, when it has none for this device.

    Raises:
        Exception: becomes a ``PluginError`` that names the plugin; nothing is lowered.

    Example:
        >>> from aoti_plugins.hooks import hookimpl
        >>> from aoti_plugins import PluginManager
        >>> from aoti_plugins.types import GraphPass
        >>> class Passes:
        ...     @hookimpl
        ...     def aoti_graph_passes(self):
        ...         cleanup = GraphPass("acme.cleanup", lambda program: None)
        ...         fuse = GraphPass("acme.fuse", lambda program: None, before=("acme.cleanup",))
        ...         return [cleanup, fuse]
        >>> manager = PluginManager(load_entry_points=False)
        >>> manager.register(Passes(), "acme")
        >>> [p.name for p in manager.graph_passes("cpu", [])]
        ['acme.fuse', 'acme.cleanup']
    """


@hookspec
def aoti_decompositions(device: str) -> Mapping[OpOverload, Callable[..., Any]]:
    """Say how to decompose ops before Inductor sees them.

    Called when a program is partitioned, to find out what Inductor can compile, and again for each
    partition that is lowered, after its graph passes. The decompositions of all plugins count, a
    built-in one only where nobody else has one for the op. Two different functions of two other
    plugins for one op are an error that names them.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"mps"``, or one of another package.

    Returns:
        From op overload to a function with the op's arguments; empty, or ``None``, when the plugin
        has none for this device.

    Raises:
        Exception: becomes a ``PluginError`` that names the plugin; nothing is lowered.

    Example:
        >>> import torch
        >>> from aoti_plugins.hooks import hookimpl
        >>> from aoti_plugins import PluginManager
        >>> def square(x):
        ...     return x * x
        >>> class Decompositions:
        ...     @hookimpl
        ...     def aoti_decompositions(self, device):
        ...         return {torch.ops.aten.square.default: square}
        >>> manager = PluginManager(load_entry_points=False)
        >>> manager.register(Decompositions(), "acme")
        >>> manager.decompositions("cpu")[torch.ops.aten.square.default](torch.tensor(3))
        tensor(9)
    """


@hookspec
def aoti_inductor_options(device: str, compile_specs: list[Any]) -> Mapping[str, Any]:
    """Set options of Inductor for the compilation of a partition.

    Called when a program is partitioned, to find out what Inductor can compile, and again for each
    partition that is lowered. The options of all plugins count, those of the built-in plugins like
    any other's. Two values for one option are an error that names the plugins; the same value twice
    is not.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"mps"``, or one of another package.
        compile_specs: the delegate's compile specs, as the partitioner made them.

    Returns:
        From option name in ``torch._inductor.config``, dotted where it is nested, to its value;
        empty, or ``None``, when the plugin sets none for this device.

    Raises:
        Exception: becomes a ``PluginError`` that names the plugin; nothing is lowered.

    Example:
        >>> from aoti_plugins.hooks import hookimpl
        >>> from aoti_plugins import PluginManager
        >>> class Options:
        ...     @hookimpl
        ...     def aoti_inductor_options(self, device):
        ...         return {"cpp.max_horizontal_fusion_size": 8} if device == "cpu" else None
        >>> manager = PluginManager(load_entry_points=False)
        >>> manager.register(Options(), "acme")
        >>> manager.inductor_options("cpu", [])
        {'cpp.max_horizontal_fusion_size': 8}
    """


@hookspec
def aoti_targets(device: str) -> Iterable[Target]:
    """Offer targets that one can lower for by name.

    Called when a program is partitioned, when a partition is lowered, and when targets are listed.
    The targets of all plugins count. Two targets with one name on one device are an error that
    names the plugins.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"mps"``, or one of another package.

    Returns:
        Targets whose ``device`` is this one; empty, or ``None``, when the plugin has none.

    Raises:
        Exception: becomes a ``PluginError`` that names the plugin; nothing is lowered.

    Example:
        >>> from aoti_plugins.hooks import hookimpl
        >>> from aoti_plugins import PluginManager
        >>> from aoti_plugins.types import Target
        >>> class Boards:
        ...     @hookimpl
        ...     def aoti_targets(self, device):
        ...         return [Target("acme-board", "cpu", "aarch64")] if device == "cpu" else []
        >>> manager = PluginManager(load_entry_points=False)
        >>> manager.register(Boards(), "acme")
        >>> manager.targets("cpu")["acme-board"].machine
        'aarch64'
    """


@hookspec
def aoti_progress(event: ProgressEvent) -> None:
    """Observe the stages of a lowering, for a progress bar or a log.

    Called on the thread that lowers, when a stage starts and when it ends or fails; the lowering
    waits for the call. Every plugin sees every event.

    Args:
        event: what starts, ends or fails, and where.

    Returns:
        Nothing; a returned value is ignored.

    Raises:
        Exception: is logged as a warning that names the plugin; the lowering goes on.

    Example:
        >>> from aoti_plugins.hooks import hookimpl
        >>> from aoti_plugins import PluginManager
        >>> from aoti_plugins.types import ProgressEvent
        >>> class Printer:
        ...     @hookimpl
        ...     def aoti_progress(self, event):
        ...         print(event.method, event.stage, event.status)
        >>> manager = PluginManager(load_entry_points=False)
        >>> manager.register(Printer(), "printer")
        >>> manager.progress(ProgressEvent("compile", "start", "cpu", "forward", 0, 1))
        forward compile start
    """
