"""From one partition of an edge program to a payload and its blobs.

The built-in ``aoti_preprocess``. The steps, each a stage that is reported: graph passes,
decompositions, then for every target code generation by Inductor, the check that somebody provides
what the code calls, and compilation; at the end the constants by storage and the payload.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import PreprocessResult

import aoti_plugins
from aoti_plugins import compile_specs as specs
from aoti_plugins.device import Device
from aoti_plugins.errors import AotiPluginsError, LoweringError
from aoti_plugins.lowering import (
    blobs_named,
    constants,
    kernel_origins,
    progress,
    runtime_shims,
    size_ranges,
    written_buffers,
)
from aoti_plugins.lowering.artifacts.compiler import compiled_meanwhile
from aoti_plugins.lowering.artifacts.shared_object import (
    Images,
    SharedObject,
    check_machine,
)
from aoti_plugins.lowering.artifacts.shared_parts import any_build, compile_shared
from aoti_plugins.lowering.decompositions import is_decomposed
from aoti_plugins.lowering.inductor.blame import explained, is_about_the_op
from aoti_plugins.lowering.inductor.capture import GeneratedCode, GeneratedConstant
from aoti_plugins.lowering.inductor.custom_ops import custom_op_options, merge
from aoti_plugins.lowering.inductor.generate import forget_pending_sizes, generate, shims_called
from aoti_plugins.lowering.inductor.inputs_in_memory import generate_in_steps
from aoti_plugins.lowering.inductor.loops import looped
from aoti_plugins.lowering.inductor.memory_of_layers import memory_of_layers
from aoti_plugins.lowering.inductor.no_triton import no_launch_in_decompositions
from aoti_plugins.lowering.inductor.options import check_options
from aoti_plugins.lowering.inductor.repeated_statements import NoLoopError
from aoti_plugins.lowering.inductor.versions import torch_version
from aoti_plugins.lowering.layers.short_program import ShortProgram, shortened
from aoti_plugins.lowering.layers.stored_between import store_between_layers
from aoti_plugins.lowering.origins import Origins, forget_histories, nodes_of
from aoti_plugins.lowering.passes.new_states_stored import new_states_stored
from aoti_plugins.lowering.passes.restore_views import loosen_views
from aoti_plugins.lowering.program_constants import value_of
from aoti_plugins.lowering.ranks import parts as rank_parts
from aoti_plugins.lowering.ranks.storages import RankStorage, pack_ranks, rank_tag
from aoti_plugins.lowering.stored_bytes import (
    DigestThreads,
    TensorBytes,
    digests_meanwhile,
    sha256_of,
)
from aoti_plugins.lowering.values import value_spec, without_gaps
from aoti_plugins.payload import (
    RANK_KEY,
    TABLE_KEY,
    ArtifactKind,
    ConstantKind,
    LibraryRef,
    Payload,
    PayloadFlag,
    StorageRef,
    TargetArtifact,
    ValueSpec,
    encode,
)
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.types import BlobName, Target

if TYPE_CHECKING:
    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch.export import ExportedProgram

logger = logging.getLogger(__name__)

_SO_ALIGNMENT = 16


def lower(
    device: Device, program: ExportedProgram, compile_specs: list[CompileSpec], method: str
) -> PreprocessResult:
    """Lower one partition.

    Args:
        device: what to lower for.
        program: the partition, an edge program; it may be changed.
        compile_specs: the options.
        method: name of the exported method.

    Returns:
        The payload, with the blobs as named data.

    Raises:
        AotiPluginsError: what failed, in which method and partition, and what to do.
    """
    place = progress.current_place(device.name, method)
    try:
        with size_ranges.as_exported(program):
            return _Lowering(device, compile_specs, place).run(program)
    except LoweringError as error:
        raise LoweringError(f"cannot lower {place}: {error}") from error
    except AotiPluginsError:
        raise  # a plugin's or the installation's fault, and it says so
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise LoweringError(f"cannot lower {place}: {what}") from error


@dataclass(frozen=True)
class _Parts:
    """What code is generated of, its ops decomposed.

    Attributes:
        short: with few of equal layers, if there are many.
        whole: gives the program with all of them, which is decomposed when it is first asked for.
    """

    short: ShortProgram | None
    whole: Callable[[], ExportedProgram]


class _Lowering:
    """The state that the steps of one lowering share."""

    def __init__(
        self, device: Device, compile_specs: list[CompileSpec], place: progress.Place
    ) -> None:
        manager = get_manager()
        self._device = device
        self._specs = compile_specs
        self._place = place
        self._options = specs.decode(compile_specs)
        self._targets = device.resolve(
            self._options.targets, manager.targets(device.name, device.check_target)
        )
        for target in self._targets:
            device.check_tools(target)
        self._inductor_options = manager.inductor_options(device.name, compile_specs, check_options)
        kernels = manager.fallback_kernels(device.name)
        self._shims = runtime_shims.available(device, kernels)
        self._decompositions = manager.decompositions(device.name)
        self._store = NamedDataStore()
        self._blobs_named = blobs_named.current()

    def run(self, program: ExportedProgram) -> PreprocessResult:
        with digests_meanwhile() as threads:
            return self._run(program, threads)

    def _run(self, program: ExportedProgram, threads: DigestThreads) -> PreprocessResult:
        inputs, outputs = _interface(program)
        _close_gaps(program)
        forget_histories(program)
        method = self._place.method
        kinds = _constant_kinds(program, method)
        program = rank_parts.with_own_collectives(program)
        num_ranks = rank_parts.num_ranks(program)
        others = rank_parts.of_ranks(program, num_ranks)
        self._inductor_options = {
            **self._inductor_options,
            **_options_for_constants(program, method, num_ranks),
        }
        self._origins = Origins(program)
        program = self._transform(program)
        constants.begin_digests(_own_constants(program), kinds, threads)
        of_ranks = [program, *self._transformed(others)]
        if num_ranks > 1:
            of_ranks = list(map(self._decomposed, of_ranks))
        rank_parts.check_same_code(of_ranks)
        parts = self._in_parts(of_ranks[0])
        artifacts = []
        needed: list[GeneratedConstant] = []
        handles: dict[str, tuple[int, ...]] = {}
        for target in self._targets:
            shared = functools.partial(compile_shared, self._device, target, self._options)
            with compiled_meanwhile(shared) as wait:
                code = self._generate(parts, target)
                self._check(code)
                needed += code.constants
                if target is self._targets[-1]:
                    found = pack_ranks(constants.merge(needed), of_ranks, kinds, threads)
                artifacts.append(self._compile(code, target, wait))
            handles.update(kernel_origins.debug_handles(code.sites, self._origins))
        flags = self._device.payload_flags(self._options)
        with progress.stage("package", self._place):
            payload = Payload(
                device=self._device.delegate_name or self._device.name,
                method=self._place.method,
                built_with=_built_with(),
                targets=tuple(artifacts),
                storages=tuple(self._add_weights(data) for data in found.storages),
                constants=found.packed.constants,
                inputs=inputs,
                outputs=outputs,
                flags=flags | PayloadFlag.RANKS if num_ranks > 1 else flags,
            )
            return PreprocessResult(
                processed_bytes=encode(payload),
                debug_handle_map=handles,
                data_store_output=self._store.get_named_data_store_output(),
            )

    def _transform(self, program: ExportedProgram) -> ExportedProgram:
        for graph_pass in get_manager().graph_passes(self._device.name, self._specs):
            with progress.stage("pass", self._place, graph_pass.name):
                program = graph_pass.run(program) or program
        store_between_layers(program, self._is_decomposed)
        return program

    def _transformed(self, programs: list[ExportedProgram]) -> list[ExportedProgram]:
        """The programs of ranks from 1 on, as far as their constants come from it."""
        found = []
        for rank, program in enumerate(programs, 1):
            with rank_parts.lowering_for(rank):
                found.append(self._transform(program))
        return found

    def _is_decomposed(self, node: torch.fx.Node) -> bool:
        return is_decomposed(node, self._decompositions)

    def _decomposed(self, program: ExportedProgram) -> ExportedProgram:
        if any(map(self._is_decomposed, nodes_of(program))):
            with progress.stage("decompose", self._place), no_launch_in_decompositions():
                forget_pending_sizes(_example_inputs(program))
                program = program.run_decompositions(self._decompositions)
                loosen_views(program)
        if torch_version() < (2, 13):
            new_states_stored(program)
        return program

    def _in_parts(self, program: ExportedProgram) -> _Parts:
        """What code is generated of: of equal layers, only those that it takes are decomposed."""
        may_fold = self._inductor_options.get("joint_graph_constant_folding", True)
        short = shortened(program, may_fold, self._is_decomposed)
        if short is None or not self._origins.learn_layers(short.nodes):
            whole = self._decomposed(program)
            return _Parts(None, lambda: whole)
        short = replace(short, program=self._decomposed(short.program))
        return _Parts(short, functools.cache(lambda: self._decomposed(program)))

    def _generate(self, parts: _Parts, target: Target) -> GeneratedCode:
        options = self._inductor_options

        def generated() -> GeneratedCode:
            try:
                return self._generate_layers(parts, target)
            except Exception as error:
                blamed = explained(error, options, self._provider_of_option)
                if blamed is None:
                    raise
                raise blamed from error

        def is_about_an_op(error: Exception) -> bool:
            return not isinstance(error, AotiPluginsError) and is_about_the_op(error, options)

        with progress.stage("generate", self._place, target.name):
            return generate_in_steps(generated, is_about_an_op, self._origins.described)

    def _generate_layers(self, parts: _Parts, target: Target) -> GeneratedCode:
        """Generate a few of equal layers, and a loop over all; all of them where that is not so."""
        if parts.short is None:
            return self._generate_all(parts.whole(), target)
        with memory_of_layers(self._origins.layer):
            try:
                return looped(self._generate_all(parts.short.program, target), parts.short)
            except NoLoopError as error:
                logger.debug("no loop over the layers of %s: %s", self._place, error)
            return self._generate_all(parts.whole(), target)

    def _generate_all(self, program: ExportedProgram, target: Target) -> GeneratedCode:
        kernels = [registered.kernel for registered in self._shims.kernels.values()]
        options = merge(self._inductor_options, custom_op_options(program.graph_module, kernels))
        environment = self._device.environment(target, self._options)
        inputs, device = _example_inputs(program), self._device.torch_device
        return generate(program.module(), inputs, options, environment, device)

    def _provider_of_option(self, name: str) -> str:
        return get_manager().provider_of_option(self._device.name, self._specs, name)

    def _check(self, code: GeneratedCode) -> None:
        if code.proxy_ops:
            raise LoweringError(
                f"no runtime without libtorch can run {', '.join(code.proxy_ops)}; "
                "a plugin can bring a decomposition (hook aoti_decompositions) "
                "or a fallback kernel (hook aoti_fallback_kernels)"
            )
        if code.files:
            raise LoweringError(f"the code needs files that a blob cannot hold: {code.files}")
        self._check_shims(shims_called(code))

    def _check_shims(self, called: Iterable[str]) -> None:
        missing = sorted(shim for shim in called if shim not in self._shims)
        if missing:
            raise LoweringError(
                f"the generated code calls {', '.join(missing)}, which nobody provides for device "
                f"{self._device.name!r}; a plugin can (hook aoti_fallback_kernels)"
            )

    def _compile(
        self, code: GeneratedCode, target: Target, wait_for_shared: Callable[[], None]
    ) -> TargetArtifact:
        self._keep_sources(code, target)
        kernels = f", {len(code.gpu_kernels)} GPU kernels" if code.gpu_kernels else ""
        with progress.stage("compile", self._place, target.name + kernels):
            wait_for_shared()
            blob = self._build(code, target)
        self._check_shims(blob.shims)
        check_machine(blob, target.machine, target.name)
        key, sha256 = self._add_blob("so", blob.data, _SO_ALIGNMENT, None)
        return TargetArtifact(
            name=target.name,
            machine=target.machine,
            features=self._device.features(target, code, self._options),
            artifact_kind=ArtifactKind.SHARED_OBJECT,
            artifact_key=key,
            artifact_nbytes=len(blob.data),
            artifact_sha256=sha256,
            libraries=tuple(
                LibraryRef(library.soname, library.version, origin)
                for library, origin in self._shims.libraries(blob.shims)
            ),
            symbols=blob.shims,
            kernels=kernel_origins.described(code.sites, self._origins),
        )

    def _build(self, code: GeneratedCode, target: Target) -> SharedObject:
        brought = tuple(self._shims.kernels)
        called = tuple(shim for shim in brought if shim in shims_called(code))
        image = functools.partial(self._device.kernel_image, target)
        build = replace(
            any_build(self._device, target, self._options),
            images=Images({k.symbol: functools.partial(image, k) for k in code.gpu_kernels}),
            objects=self._shims.objects(called),
            libraries=tuple(library.path for library, _ in self._shims.libraries(called)),
        )
        return self._device.build(code, build, target, self._options)

    def _keep_sources(self, code: GeneratedCode, target: Target) -> None:
        if not self._options.keep_sources:
            return
        name = f"{self._place.method}_{self._place.partition}_{target.name}"
        folder = Path(self._options.keep_sources) / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "wrapper.cpp").write_text(code.wrapper, encoding="utf-8")
        (folder / "kernels.cpp").write_text(code.kernels, encoding="utf-8")

    def _add_weights(self, data: bytes | TensorBytes | RankStorage) -> StorageRef:
        tag = self._options.external_data or None
        if isinstance(data, RankStorage):
            return self._add_rank_weights(data)
        key, sha256 = self._add_blob("weights", data, constants.ALIGNMENT, tag)
        return StorageRef(key, len(data), sha256)

    def _add_rank_weights(self, storage: RankStorage) -> StorageRef:
        """Store the table of digests in the program, and each rank's bytes in its file."""
        key, sha256 = self._add_blob("weights", storage.table, _SO_ALIGNMENT, None, TABLE_KEY)
        for rank, part in enumerate(storage.parts):
            tag = rank_tag(self._options.external_data, rank)
            self._store.add_named_data(f"{key}{RANK_KEY}{rank}", part, constants.ALIGNMENT, tag)
        return StorageRef(f"{key}{RANK_KEY}", len(storage.parts[0]), sha256)

    def _add_blob(
        self,
        kind: str,
        data: bytes | TensorBytes,
        alignment: int,
        tag: str | None,
        ending: str = "",
    ) -> tuple[str, bytes]:
        """Store a blob under its name with an ending; returns the name and the digest."""
        digest = sha256_of(data)
        namer, name = get_manager().namer_and_name(
            kind, self._device.name, self._place.method, digest.hex()
        )
        what = f"{'code' if kind == 'so' else kind} of {self._place}"
        self._blobs_named.add(str(name), digest.hex(), what, namer)
        if tag is None and not ending and isinstance(name, BlobName):
            tag = name.external_tag
        self._store.add_named_data(f"{name}{ending}", data, alignment, tag)
        return str(name), digest


def _interface(
    program: ExportedProgram,
) -> tuple[tuple[ValueSpec, ...], tuple[ValueSpec, ...]]:
    """Inputs and outputs of a partition in the order in which ExecuTorch passes them."""
    placeholders = _user_placeholders(program)
    outputs = program.graph.output_node().args[0]
    mutations = len(outputs) - len(program.graph_signature.user_outputs)  # they come first
    return (
        tuple(value_spec(node.meta["val"], f"input {node.name!r}") for node in placeholders),
        tuple(
            value_spec(node.meta["val"], f"output {node.name!r}")
            if isinstance(node, torch.fx.Node)
            else value_spec(node, "a constant output")
            for node in outputs[mutations:]
        ),
    )


def _user_placeholders(program: ExportedProgram) -> list[torch.fx.Node]:
    names = set(program.graph_signature.user_inputs)
    return [n for n in program.graph.nodes if n.op == "placeholder" and n.name in names]


def _example_inputs(program: ExportedProgram) -> list[Any]:
    return [node.meta["val"] for node in _user_placeholders(program)]


def _close_gaps(program: ExportedProgram) -> None:
    """Let the inputs be laid out as the runtime passes them."""
    for node in _user_placeholders(program):
        if isinstance(node.meta["val"], torch.Tensor):
            node.meta["val"] = without_gaps(node.meta["val"])


def _own_constants(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Parameters, buffers and constants by FQN."""
    fqns = (str(spec.target) for spec in program.graph_signature.input_specs if spec.target)
    values = {fqn: value_of(program, fqn) for fqn in fqns}
    return {fqn: value for fqn, value in values.items() if value is not None}


def _constant_kinds(program: ExportedProgram, method: str) -> dict[str, ConstantKind]:
    signature = program.graph_signature
    kinds = dict.fromkeys(signature.inputs_to_parameters.values(), ConstantKind.PARAMETER)
    kinds.update(dict.fromkeys(signature.inputs_to_buffers.values(), ConstantKind.BUFFER))
    kinds.update(
        (fqn, ConstantKind.MUTABLE_BUFFER)
        if written_buffers.is_shared(fqn, method)
        else (fqn, ConstantKind.OWN_BUFFER)
        for fqn in signature.buffers_to_mutate.values()
    )
    read = written_buffers.read_by(program, method)
    kinds.update(dict.fromkeys(read, ConstantKind.MUTABLE_BUFFER))
    return kinds


def _options_for_constants(
    program: ExportedProgram, method: str, num_ranks: int
) -> dict[str, bool]:
    """Keep Inductor from computing with first values of buffers that change, or one rank's."""
    differs = num_ranks > 1 or bool(written_buffers.read_by(program, method))
    options = {}
    if differs or program.graph_signature.buffers_to_mutate:
        # Of constants that are one value throughout.
        options["joint_graph_constant_folding"] = False
    if differs:
        # Small ones that only this code does not write to, or that other ranks have otherwise.
        options["always_keep_tensor_constants"] = True
    return options


def _built_with() -> tuple[tuple[str, str], ...]:
    """Our own distribution, what it stands on, and every plugin that had a say."""
    own = {"aoti-plugins": aoti_plugins.__version__, "torch": torch.__version__}
    own["executorch"] = version("executorch")
    plugins = {
        p.distribution: p.version
        for p in get_manager().plugins()
        if p.distribution and not p.blocked
    }
    others = {name: found or "" for name, found in sorted(plugins.items()) if name not in own}
    return (*own.items(), *others.items())
