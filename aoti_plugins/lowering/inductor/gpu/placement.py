"""Place a program on a GPU without moving its data.

Parameters, buffers and inputs become fake tensors on the device; the real values stay where they
are, in a table by identity, and are looked up when Inductor asks for the value of a constant. The
same way serves a machine with a GPU: weights never take device memory while a program is lowered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import torch
from torch._guards import detect_fake_mode
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from aoti_plugins.lowering.inductor.patching import patch, replaced
from aoti_plugins.lowering.inductor.versions import torch_version


class Placement:
    """One module on the device, with fakes for its constants.

    Args:
        module: an unlifted graph module; it is changed.
        inputs: its example inputs, fake tensors and numbers.
        device: with an index, for instance ``cuda:0``.
    """

    def __init__(self, module: GraphModule, inputs: Sequence[Any], device: torch.device) -> None:
        self.device = device
        self._mode = detect_fake_mode(list(inputs)) or _mode_of(module) or FakeTensorMode()
        self._real: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._by_name: dict[str, torch.Tensor] = {}
        self._fake: dict[int, FakeTensor] = {}
        self.module = module
        self.inputs = [self._like(value) for value in inputs]
        self._place_constants()
        self._place_graphs()

    def real(self, fqn: str, tensor: torch.Tensor) -> torch.Tensor:
        """The value of a constant, by its name, else by the fake that stands for it.

        Raises:
            KeyError: Inductor made it from others, and only a fake is left.
        """
        found = self._by_name.get(fqn)
        if found is None:
            found = self.behind(tensor)
        if isinstance(found, FakeTensor):
            raise KeyError(f"the value of constant {fqn!r} is not known")
        return found

    def behind(self, tensor: torch.Tensor) -> torch.Tensor:
        """The value behind a placed constant; any other tensor as it is."""
        known = self._real.get(id(tensor))
        return known[1] if known else tensor

    def in_layout(self, fake: torch.Tensor, layout: torch.memory_format) -> torch.Tensor:
        """A fake in another layout, which stands for the same values."""
        with self._mode:
            changed = torch.empty(
                fake.size(), dtype=fake.dtype, device=self.device, memory_format=layout
            )
        self._real[id(changed)] = (changed, self.behind(fake))
        return changed

    @contextlib.contextmanager
    def real_inputs(self) -> Iterator[None]:
        """Let the program's fake mode take real tensors too, such as scalars of the graph."""
        before = self._mode.allow_non_fake_inputs
        self._mode.allow_non_fake_inputs = True
        try:
            yield
        finally:
            self._mode.allow_non_fake_inputs = before

    def _like(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        with self._mode:
            return torch.empty_strided(
                value.size(), value.stride(), dtype=value.dtype, device=self.device
            )

    def _placed(self, tensor: torch.Tensor) -> FakeTensor:
        if id(tensor) not in self._fake:
            with torch.no_grad():
                fake = self._like(tensor)
            self._fake[id(tensor)] = fake
            self._real[id(fake)] = (fake, tensor.detach())
        return self._fake[id(tensor)]

    def _place_constants(self) -> None:
        for path, owner in self.module.named_modules():
            for table in (owner._parameters, owner._buffers, vars(owner)):
                for name, value in list(table.items()):
                    if isinstance(value, torch.Tensor):
                        table[name] = self._place_constant(f"{path}.{name}".lstrip("."), value)

    def _place_constant(self, fqn: str, value: torch.Tensor) -> torch.Tensor:
        fake = self._placed(value)
        self._by_name[fqn] = value.detach()
        # Inductor writes small constants into the code and asks the tensor itself for its values.
        fake.item, fake.tolist = value.item, value.tolist
        if not isinstance(value, torch.nn.Parameter):
            return fake
        parameter = torch.nn.Parameter(fake, requires_grad=False)
        parameter.item, parameter.tolist = value.item, value.tolist
        self._real[id(parameter)] = (parameter, value.detach())
        return parameter

    def _place_graphs(self) -> None:
        for graph_module in self.module.modules():
            if not isinstance(graph_module, GraphModule):
                continue
            for node in graph_module.graph.nodes:
                if node.kwargs.get("device") is not None or _is_on_default_device(node):
                    node.kwargs = {**node.kwargs, "device": self.device}
                node.args = pytree.tree_map_only(torch.device, lambda _: self.device, node.args)
                if "val" in node.meta:
                    node.meta["val"] = pytree.tree_map(self._like, node.meta["val"])
            graph_module.recompile()


def _is_on_default_device(node: Node) -> bool:
    """Whether a node makes a tensor of no other, and says not where, as ExecuTorch's do."""
    if not isinstance(node.target, OpOverload):
        return False
    if any(isinstance(one.meta.get("val"), torch.Tensor) for one in node.all_input_nodes):
        return False
    return any(one.name == "device" for one in node.target._schema.arguments)


def _mode_of(module: GraphModule) -> FakeTensorMode | None:
    for node in module.graph.nodes:
        for leaf in pytree.tree_leaves(node.meta.get("val")):
            if isinstance(leaf, FakeTensor):
                return leaf.fake_mode
    return None


@patch(
    "torch._inductor.graph.is_same_tensor(data, value)",
    "torch._inductor.graph.GraphLowering.init_wrapper_code("
    "self, is_subgraph, subgraph_name, parent_wrapper_code, partition_signatures)",
    "torch._inductor.utils.is_same_tensor(data, value)",
    why="Constants that are fakes cannot be told apart, and take no device memory.",
    until="aot_compile takes fake constants",
)
def placed_constants(placement: Placement) -> Iterator[None]:
    """Let Inductor tell constants apart by their real values, and know the device in any case."""
    from torch._inductor import graph

    def is_same(original: Any, data: torch.Tensor, value: torch.Tensor) -> bool:
        if data.stride() != value.stride():  # one of them is for convolutions
            return False
        one, other = placement.behind(data), placement.behind(value)
        if isinstance(one, FakeTensor) or isinstance(other, FakeTensor):
            return data is value
        return bool(original(one, other))

    def on_device(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        # A graph that only passes constants on has nothing else that names the device.
        self.add_device_info(placement.device)
        original(self, *args, **kwargs)

    with (
        replaced(graph, "is_same_tensor", is_same),
        replaced(graph.GraphLowering, "init_wrapper_code", on_device),
        _constants_stay(),
        placement.real_inputs(),
    ):
        yield


def _constants_stay() -> AbstractContextManager[Any]:
    """Since 2.15 Inductor moves constants off the GPU while it tunes; fakes take no memory."""
    if torch_version() < (2, 15):
        return contextlib.nullcontext()
    from torch._inductor.codegen import wrapper

    return mock.patch.object(wrapper, "_constants_offloaded_to_disk", contextlib.nullcontext)
