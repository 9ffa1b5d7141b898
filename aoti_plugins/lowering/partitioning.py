"""What every device's partitioner does; the partitioner classes only carry their options."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, PartitionResult
from executorch.exir.backend.utils import get_non_lowered_nodes, tag_constant_data
from executorch.exir.graph_module import get_control_flow_submodules
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from aoti_plugins import compile_specs as specs
from aoti_plugins.destinations import check_destination, check_folder
from aoti_plugins.device import Device
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering import (
    assertions,
    carried_ops,
    interfaces,
    runtime_shims,
    size_ranges,
)
from aoti_plugins.lowering.artifacts.shared_parts import compile_shared_ahead
from aoti_plugins.lowering.hidden_views import hidden_views, writes
from aoti_plugins.lowering.host_predicates import host_predicates
from aoti_plugins.lowering.inductor.no_triton import no_launch_in_decompositions
from aoti_plugins.lowering.inductor.options import check_options
from aoti_plugins.lowering.inductor.probe import Probe
from aoti_plugins.lowering.layers.folded_op import Folded
from aoti_plugins.lowering.layers.folding import Asked, fold
from aoti_plugins.lowering.memory_formats import row_major_copies
from aoti_plugins.lowering.origins import share_histories
from aoti_plugins.lowering.ranks.parts import with_own_collectives
from aoti_plugins.lowering.settled import is_settled
from aoti_plugins.lowering.splits import slices_for_splits
from aoti_plugins.lowering.support import Refusal, Support, listed, warn, warn_of_state
from aoti_plugins.lowering.written_windows import other_views_of_windows
from aoti_plugins.plugin_system.manager import get_manager

if TYPE_CHECKING:
    from executorch.exir import EdgeCompileConfig
    from torch.export import ExportedProgram

_NO_COMPUTE = (operator.getitem,)


class Plan:
    """The decisions of one partitioner.

    Args:
        device: the device to lower for.
        compile_specs: the partitioner's options.

    Raises:
        LoweringError: the options do not parse, or name no target.
    """

    is_forecast = False
    """Whether nobody is warned, and nothing refused, since nothing is to be run."""

    def __init__(self, device: Device, compile_specs: list[CompileSpec]) -> None:
        self._options = specs.decode(compile_specs)
        if self._options.target_device.partition(":")[0] not in ("", device.name):
            raise LoweringError(
                f"target_device is '{device.name}:0', '{device.name}:1', ...; found "
                f"{self._options.target_device!r}"
            )
        _check_excluded(self._options.exclude)
        self._device = device
        self._specs = compile_specs
        self._targets = device.resolve(
            self._options.targets, get_manager().targets(device.name, device.check_target)
        )
        self._folded: list[Folded] = []
        self.delegation_spec = DelegationSpec(device.backend().__name__, compile_specs)

    def partition(self, program: ExportedProgram) -> PartitionResult:
        """Tag what the delegate takes, in the main graph and in the branches of control flow."""
        # ExecuTorch drops from it what delegates take; the user's program has it, too.
        program._constants = dict(program.constants)
        support = self.support()
        interface = interfaces.described(program)
        refusals = []
        tags: dict[str, DelegationSpec] = {}
        for module in _graphs(program.graph_module):
            candidates = self._candidates(program, module)
            ops = [node for node in candidates if node.target not in _NO_COMPUTE]
            support.prepare(ops)
            refusals += [r for r in map(support.refusal, ops) if r is not None]
            for nodes in _partitions(module, {n for n in candidates if support.refusal(n) is None}):
                tag = f"aoti_{self._device.name}_{len(tags)}"
                tags[tag] = self.delegation_spec if tags else self._first_delegation_spec(interface)
                for node in nodes:
                    node.meta["delegation_tag"] = tag
        tag_constant_data(program)
        _keep_constants_used_outside(program)
        kept_outside = _tag_mutated_buffers(program)
        if not self.is_forecast:
            warn(refusals, self._device.name)
            warn_of_state(kept_outside, self._device.name)
        return PartitionResult(tagged_exported_program=program, partition_tags=tags)

    def _first_delegation_spec(self, interface: bytes) -> DelegationSpec:
        """That of the delegate which also carries how the method is called."""
        if not interface:
            return self.delegation_spec
        added = CompileSpec(specs.INTERFACE_COMPILE_SPEC_KEY, interface)
        return DelegationSpec(self.delegation_spec.backend_id, [*self._specs, added])

    def ops_to_keep_whole(self, program: ExportedProgram) -> list[torch._ops.OpOverload]:
        """Ops of an ATen program that Inductor can take as they are, wherever it uses them.

        An op that the delegate refuses somewhere is decomposed everywhere, since ExecuTorch could
        not run the rest; so is one that its check cannot read. Those nodes that
        ExecuTorch would not let through get a name, in place, by which it does; in the edge
        program, about which it asks last, those that nobody took get their own back.
        """
        carried_ops.put_back(n for m in _graphs(program.graph_module) for n in m.graph.nodes)
        support = self.support()
        views = hidden_views(list(_graphs(program.graph_module)))
        refused: dict[torch._ops.OpOverload, bool] = dict.fromkeys(views, True)
        taken = []
        for module in _graphs(program.graph_module):
            candidates = set(self._candidates(program, module))
            asked = [node for node in _candidates(module) if _is_asked(node)]
            support.prepare(node for node in asked if node in candidates)
            for node in asked:
                is_taken = node in candidates and support.refusal(node) is None
                is_taken = is_taken and carried_ops.can_be_checked(node)
                refused[node.target] = refused.get(node.target, False) or not is_taken
                taken += [node] if is_taken else []
        carried_ops.carry(taken)
        return [op for op, is_refused in refused.items() if not is_refused]

    def check_kernels(self, program: ExportedProgram) -> None:
        """Refuse an edge program with ops that nobody runs, unless the user allows it.

        Raises:
            LoweringError: what is in no delegate and has no kernel, and what to do about it.
        """
        if self._options.allow_missing_kernels or self.is_forecast:
            return
        left = [refusal for refusal in self.refusals(program) if refusal.kernel]
        if left:
            raise LoweringError(
                "ExecuTorch has no kernel for what is in no delegate, so that the program could "
                f"not be loaded:\n{listed(left)}\nWhere the kernels are registered before the "
                "program is loaded, give the partitioner allow_missing_kernels=True."
            )

    def refusals(self, program: ExportedProgram) -> list[Refusal]:
        """Why those ops of an edge program that are in no delegate are in none."""
        support = self.support()
        return [
            refusal
            for module in _graphs(program.graph_module)
            for node in self._candidates(program, module)
            if node.target not in _NO_COMPUTE
            if (refusal := support.refusal(node)) is not None
        ]

    def decompose_unknown_ops(self, program: ExportedProgram) -> ExportedProgram:
        """Decompose those ops of an ATen program that ExecuTorch does not let into edge programs.

        It cannot decompose them either. Where a plugin can, the rest of the way is open. Composite
        ops that the delegate refuses are taken apart, so that it is asked about their parts, and so
        are those that give views without saying so, where the program writes to tensors. Copies
        with a layout that ExecuTorch cannot express become row-major, and splits of a dynamic
        first dimension slices. A program in which there is nothing of that is left as it is.
        """
        size_ranges.remember(program)
        share_histories(program)
        program = with_own_collectives(program)
        other_views_of_windows(_graphs(program.graph_module))
        table = None
        modules = list(_graphs(program.graph_module))
        if is_settled(modules, ()):  # else it is not, whatever is decomposed
            table = self._decompositions(program)
            if is_settled(modules, table):
                return program
        functional = _with_layouts_decided(program)
        if table is None or functional is not program:
            program, table = functional, self._decompositions(functional)
        modules = list(_graphs(program.graph_module))
        table |= row_major_copies(modules)
        ops = {n.target for m in modules for n in m.graph.nodes}
        if not ops & table.keys():
            return program
        with no_launch_in_decompositions():
            program = program.run_decompositions(table)
        share_histories(program)
        return program

    def _decompositions(self, program: ExportedProgram) -> dict[torch._ops.OpOverload, Any]:
        """How to decompose what ExecuTorch does not let in, or must not see whole."""
        table = {
            op: decomposition
            for op, decomposition in get_manager().decompositions(self._device.name).items()
            if op.namespace == "aten" and (torch.Tag.core not in op.tags or _is_random(op))
        }
        modules = list(_graphs(program.graph_module))
        ops = {n.target for m in modules for n in m.graph.nodes}
        refused = self._refused_composites(modules)
        if refused or ops & table.keys():  # what is known is asked only then: it takes a moment
            known = torch.export.default_decompositions()
            # What it makes of a random or a composite op ends in others that it does not let in.
            table = {
                op: how
                for op, how in table.items()
                if op not in known or _is_random(op) or _is_composite(op)
            }
            table = {op: known[op] for op in refused if op in known} | table
        return table | slices_for_splits(modules) | hidden_views(modules)

    def fold_layers(self, program: ExportedProgram, config: EdgeCompileConfig) -> ExportedProgram:
        """An ATen program with an op for each of its equal layers, if the delegate takes those.

        Args:
            program: what ``decompose_unknown_ops`` gave.
            config: how ExecuTorch makes edge programs.
        """
        asked = Asked(self.ops_to_keep_whole, self._takes_all)
        program, folded = fold(program, asked, config)
        self._folded += folded
        return program

    def forget_layers(self) -> None:
        """Nothing is to be lowered any more of what ``fold_layers`` gave."""
        self._folded.clear()

    def _takes_all(self, program: ExportedProgram) -> bool:
        """Whether every op of an edge program is one that the delegate takes."""
        support, module = self.support(), program.graph_module
        nodes = [node for node in module.graph.nodes if node.op == "call_function"]
        candidates = set(self._candidates(program, module))
        ops = [node for node in nodes if node.target not in _NO_COMPUTE]
        support.prepare(ops)
        return all(node in candidates and support.refusal(node) is None for node in ops)

    def compile_ahead(self) -> None:
        """Begin to compile what all blobs share, since the next seconds are ExecuTorch's."""
        if not self.is_forecast:
            compile_shared_ahead(self._device, self._targets, self._options)

    def _refused_composites(self, modules: Sequence[GraphModule]) -> set[torch._ops.OpOverload]:
        support = self.support()
        nodes = [node for module in modules for node in _candidates(module)]
        ops = torch._ops.OpOverload
        composites = [n for n in nodes if isinstance(n.target, ops) and _is_composite(n.target)]
        support.prepare(composites)
        return {node.target for node in composites if support.refusal(node) is not None}

    def _candidates(self, program: ExportedProgram, module: GraphModule) -> list[Node]:
        """Nodes that the delegate may take, if it can."""
        nodes = [node for node in _candidates(module) if not assertions.is_decision(node)]
        if self._is_host():
            return nodes
        signature = program.graph_signature
        written = set(signature.buffers_to_mutate.values())
        state = [name for name, fqn in signature.inputs_to_buffers.items() if fqn in written]
        on_host = host_predicates(module, state if module is program.graph_module else ())
        return [node for node in nodes if node not in on_host]

    def _is_host(self) -> bool:
        return self._device.torch_type == "cpu"

    def support(self) -> Support:
        """Decides about the nodes of one program.

        Raises:
            LoweringError: a tool that the target needs is missing.
            DestinationError: what the options name cannot be written.
        """
        _check_destinations(self._options)
        for target in self._targets:
            self._device.check_tools(target)
        passes = get_manager().graph_passes(self._device.name, self._specs)
        handled = [one.handles for one in passes if one.handles is not None]
        excluded = self._options.exclude
        return Support(self._device, self._probes, self._shims, handled, excluded)

    @functools.cached_property
    def _shims(self) -> runtime_shims.AvailableShims:
        kernels = get_manager().fallback_kernels(self._device.name)
        return runtime_shims.available(self._device, kernels)

    @functools.cached_property
    def _probes(self) -> list[Probe]:
        manager = get_manager()
        options = manager.inductor_options(self._device.name, self._specs, check_options)
        decompositions = manager.decompositions(self._device.name)
        kernels = [registered.kernel for registered in self._shims.kernels.values()]
        return [
            Probe(
                options,
                decompositions,
                kernels,
                functools.partial(self._device.probe_environment, target, self._options),
                self._device.torch_device,
                functools.partial(manager.provider_of_option, self._device.name, self._specs),
            )
            for target in self._targets
        ]


def _check_destinations(options: specs.LoweringOptions) -> None:
    if options.keep_sources:
        check_folder(options.keep_sources)
    if options.save_tuning:
        check_destination(options.save_tuning, is_merged=True)


def _check_excluded(names: Sequence[str]) -> None:
    """See that each is an op; one that a library defines is only there when that is imported."""
    for name in names:
        found = torch.ops
        for part in name.split("."):
            found = getattr(found, part, None)
        if not isinstance(found, torch._ops.OpOverload):
            raise LoweringError(
                f"the option 'exclude' takes ops by their whole names, such as "
                f"'aten.cumsum.default'; found {name!r}, which is none that is known"
            )


def _is_random(op: torch._ops.OpOverload) -> bool:
    return torch.Tag.nondeterministic_seeded in op.tags


def _is_composite(op: torch._ops.OpOverload) -> bool:
    return bool(op.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd))


def _keep_constants_used_outside(program: ExportedProgram) -> None:
    """Leave a constant to ExecuTorch that the program returns or that an op outside uses.

    ExecuTorch refuses delegates that own such a one. A delegate that uses it gets it as an input.
    """
    for node in program.graph.nodes:
        if node.op == "placeholder" and any("delegation_tag" not in u.meta for u in node.users):
            node.meta.pop("delegation_tag", None)


def _tag_mutated_buffers(program: ExportedProgram) -> list[str]:
    """Give a buffer that the program writes to the partition that reads and writes it, if one does.

    A buffer that is also used elsewhere, before or after the write, stays outside: two owners would
    not see each other's writes.

    Returns:
        FQNs of the buffers that stay outside.
    """
    outside = []
    signature = program.graph_signature
    results = {buffer: result for result, buffer in signature.buffers_to_mutate.items()}
    nodes = {node.name: node for node in program.graph.nodes}
    returns = list(program.graph.output_node().args[0])
    for name, buffer in signature.inputs_to_buffers.items():
        if buffer not in results:
            continue
        users = [user for user in nodes[name].users if user.op != "output"]
        result = nodes[results[buffer]]
        involved = [*users, result, *(user for user in result.users if user.op != "output")]
        tags = {node.meta.get("delegation_tag") for node in involved}
        returned = len(users) != len(nodes[name].users) or returns.count(result) > 1
        if len(tags) == 1 and None not in tags and not returned:
            nodes[name].meta["delegation_tag"] = tags.pop()
        elif tags != {None}:
            outside.append(buffer)
    return outside


def _graphs(module: GraphModule) -> Iterator[GraphModule]:
    yield module
    for _, nested, _ in get_control_flow_submodules(module):
        yield from _graphs(nested)


def _candidates(module: GraphModule) -> list[Node]:
    return [node for node in get_non_lowered_nodes(module.graph) if node.op == "call_function"]


def _with_layouts_decided(program: ExportedProgram) -> ExportedProgram:
    """A program that writes, made functional before copies become row-major.

    ``flatten`` and the like give a view or a copy by the layout of what they are given.
    """
    modules = list(_graphs(program.graph_module))
    if not writes(modules) or not row_major_copies(modules):
        return program
    with no_launch_in_decompositions():
        program = program.run_decompositions(hidden_views(modules))
    share_histories(program)
    return program


def _is_asked(node: Node) -> bool:
    """Whether a node is an op that can be kept whole."""
    return isinstance(node.target, torch._ops.OpOverload) and not _is_size(node)


def _is_size(node: Node) -> bool:
    """Whether a node's result is a number, which ExecuTorch computes as well as a delegate."""
    return isinstance(node.meta.get("val"), torch.SymInt | torch.SymBool | torch.SymFloat)


def _partitions(module: GraphModule, supported: set[Node]) -> list[list[Node]]:
    """Convex groups of supported nodes that compute something, in graph order."""
    partitioner = CapabilityBasedPartitioner(
        module, _Chosen(supported.__contains__), allows_single_node_partition=True
    )
    position = {node: index for index, node in enumerate(module.graph.nodes)}
    found = [set(partition.nodes) for partition in partitioner.propose_partitions()]
    found = [group for group in found if any(_computes(node) for node in group)]
    found.sort(key=lambda group: min(map(position.__getitem__, group)))
    assertions.join(module, found)
    return [sorted(group, key=position.__getitem__) for group in found]


class _Chosen(OperatorSupportBase):
    """Adapter: the partitioner of torch.fx asks an object, the answer is known already."""

    def __init__(self, is_chosen: Callable[[Node], bool]) -> None:
        self._is_chosen = is_chosen

    def is_node_supported(self, submodules: object, node: Node) -> bool:
        del submodules
        return self._is_chosen(node)


def _computes(node: Node) -> bool:
    return node.target not in _NO_COMPUTE and isinstance(
        node.meta.get("val"), torch.Tensor | list | tuple
    )
