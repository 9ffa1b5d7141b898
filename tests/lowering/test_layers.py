"""Layers that compute the same are one op while ExecuTorch has the program."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from executorch.exir import EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.backend.partitioner import Partitioner
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.fx import Graph
from torch.nn import functional
from torchao.quantization import Int8WeightOnlyConfig, quantize_

from aoti_plugins import CpuPartitioner, CudaPartitioner, MpsPartitioner
from aoti_plugins.errors import LoweringError
from aoti_plugins.hooks import hookimpl
from aoti_plugins.lowering import backend
from aoti_plugins.lowering.layers import folded_op, folding
from aoti_plugins.lowering.layers.repeated import equal_layers
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program

WIDTH = 16
ATEN = torch.ops.aten


class Layer(nn.Module):
    """Attention with a cache and a linear layer, both behind a norm whose epsilon is a number."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.norm = nn.Parameter(torch.rand(WIDTH))
        self.projections, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, width), nn.Linear(width, WIDTH)
        self.register_buffer("keys", torch.zeros(1, 2, 32, 8))
        self.register_buffer("values", torch.zeros(1, 2, 32, 8))

    def forward(self, x: Tensor, places: Tensor, mask: Tensor) -> Tensor:
        normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.norm
        rows = self.projections(normed).view(1, -1, 3, 2, 8).unbind(2)
        q, k, v = (one.transpose(1, 2) for one in rows)
        self.keys.index_copy_(2, places, k)
        self.values.index_copy_(2, places, v)
        found = functional.scaled_dot_product_attention(q, self.keys, self.values, mask)
        x = x + self.out(found.transpose(1, 2).reshape(1, -1, WIDTH))
        return x + self.down(functional.silu(self.up(x)))


class Decoder(nn.Module):
    """Layers with what each model has around them."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.embedding, self.layers = nn.Embedding(50, WIDTH), nn.ModuleList(layers)
        self.head = nn.Linear(WIDTH, 50)

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        x = self.embedding(tokens)
        mask = torch.arange(32) <= places[:, None]
        for layer in self.layers:
            x = layer(x, places, mask)
        return self.head(x / (x.pow(2).mean(-1, keepdim=True) + 1e-6))


def decoder(*layers: nn.Module) -> ExportedProgram:
    torch.manual_seed(0)
    model = Decoder(list(layers) or [Layer() for _ in range(4)])
    return export(model.eval(), (torch.tensor([[7]]), torch.tensor([3])))


def groups(program: ExportedProgram) -> list[list[str]]:
    signature = program.graph_signature
    constants = dict.fromkeys((*signature.inputs_to_parameters, *signature.inputs_to_buffers), 1)
    return [[one.path for one in group] for group in equal_layers(program.graph, constants)]


class Expanded(list[list[str]]):
    """Paths of the layers that were ops, one list for each partition that was lowered."""


@pytest.fixture
def expanded(monkeypatch: pytest.MonkeyPatch) -> Expanded:
    found = Expanded()
    original = backend.expand

    def expand(program: ExportedProgram) -> None:
        ops = filter(folded_op.is_folded, program.graph.nodes)
        found.append([one.path for node in ops for one in folded_op.layers_of(node)])
        original(program)
        assert not any(map(folded_op.is_folded, program.graph.nodes))
        program.graph.lint()

    monkeypatch.setattr(backend, "expand", expand)
    return found


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A function that has layers kept as they are from then on."""
    with monkeypatch.context() as patch:
        yield patch


def keep_layers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("aoti_plugins.lowering.partitioner.config_of_sole_reader", lambda _: None)


def lowered(program: ExportedProgram, **options: Any) -> EdgeProgramManager:
    options.setdefault("partitioner", [CpuPartitioner()])
    return to_edge_transform_and_lower(program, **options)


PATHS = ["layers.0", "layers.1", "layers.2", "layers.3"]


def test_layers_that_are_equal() -> None:
    assert groups(decoder()) == [PATHS]
    two_sizes = [Layer(), Layer(24), Layer(), Layer(24), Layer(), Layer(24)]
    assert groups(decoder(*two_sizes)) == [
        ["layers.0", "layers.2", "layers.4"],
        ["layers.1", "layers.3", "layers.5"],
    ]


def test_few_are_left_as_they_are() -> None:
    assert groups(decoder(Layer(), Layer())) == []


def test_a_number_is_a_part_of_the_structure() -> None:
    class Scaled(nn.Module):
        def __init__(self, factor: float) -> None:
            super().__init__()
            self.linear, self.factor = nn.Linear(WIDTH, WIDTH), factor

        def forward(self, x: Tensor, places: Tensor, mask: Tensor) -> Tensor:
            return self.linear(x) * self.factor

    factors = [2.0, 2.0, 3.0, 2.0, 2]
    assert groups(decoder(*map(Scaled, factors))) == [["layers.0", "layers.1", "layers.3"]]


def test_blocks_within_stages() -> None:
    def stage(before: int, after: int, blocks: int) -> nn.Module:
        block = [nn.Sequential(nn.Linear(after, after), nn.ReLU()) for _ in range(blocks)]
        return nn.Sequential(nn.Linear(before, after), *block)

    model = nn.Sequential(stage(4, 8, 3), stage(8, 16, 4))
    program = export(model, (torch.rand(2, 4),))
    assert groups(program) == [["0.1", "0.2", "0.3"], ["1.1", "1.2", "1.3", "1.4"]]


def test_arguments_stay_in_their_order(expanded: Expanded) -> None:
    class Swapped(Decoder):
        def forward(self, places: Tensor, unused: Tensor, tokens: Tensor) -> Tensor:
            return super().forward(tokens, places)

    model = Swapped([Layer() for _ in range(3)]).eval()
    inputs = torch.tensor([3]), torch.zeros(2), torch.tensor([[7]])
    program = export(model, inputs)
    with Program(bytes(lowered(program).to_executorch().buffer)) as run:
        torch.testing.assert_close(run(*inputs)[0], program.module()(*inputs).detach())
    assert expanded == [PATHS[:3]]


def test_an_argument_with_a_name_of_python(expanded: Expanded) -> None:
    """``nn.Sequential`` calls it ``input``; other graphs would have it as ``input_1``."""
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(3)))
    x = torch.rand(4, 8)
    with Program(bytes(lowered(export(model, (x,))).to_executorch().buffer)) as run:
        torch.testing.assert_close(run(x)[0], model(x).detach())
    assert expanded == [["0", "1", "2"]]


def test_dynamic_sizes_are_left_as_they_are() -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.ReLU()) for _ in range(4)))
    dynamic = ({0: Dim("batch", max=8)},)
    assert groups(export(model, (torch.rand(4, 8),))) != []
    assert groups(export(model, (torch.rand(4, 8),), dynamic_shapes=dynamic)) == []


@torch.library.custom_op("aoti_plugins_layers_test::store", mutates_args=("kept",))
def store(value: Tensor, kept: Tensor) -> None:
    """Write to the second argument."""
    kept.copy_(value)


def test_what_is_written_is_said_by_the_op() -> None:
    class Stores(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.ones(WIDTH))
            self.register_buffer("kept", torch.zeros(WIDTH))

        def forward(self, x: Tensor, places: Tensor, mask: Tensor) -> Tensor:
            store(self.scale, self.kept)
            return x * self.kept

    program = decoder(*(Stores() for _ in range(3)))
    (group,) = equal_layers(program.graph, {})
    assert [[one.name for one in layer.written] for layer in group] == [
        ["b_layers_0_kept"],
        ["b_layers_1_kept"],
        ["b_layers_2_kept"],
    ]


def test_a_buffer_that_layers_share_is_left_as_it_is() -> None:
    class Counts(nn.Module):
        def __init__(self, keys: Tensor) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, WIDTH)
            self.register_buffer("keys", keys)

        def forward(self, x: Tensor, places: Tensor, mask: Tensor) -> Tensor:
            self.keys.index_copy_(0, places, x[0])
            return self.linear(x) + self.keys[:1]

    shared = torch.zeros(32, WIDTH)
    assert groups(decoder(*(Counts(shared) for _ in range(3)))) == []
    assert groups(decoder(*(Counts(shared.clone()) for _ in range(3)))) == [PATHS[:3]]


class Tied(Decoder):
    """Two weights are used outside of their layers, too; others are laid out by columns."""

    def __init__(self) -> None:
        super().__init__([Layer() for _ in range(4)])
        for layer in self.layers:
            layer.down.weight = nn.Parameter(layer.down.weight.detach().t().contiguous().t())

    def forward(self, tokens: Tensor, places: Tensor) -> Tensor:
        last: Any = self.layers[3]
        return super().forward(tokens, places).sum() * last.norm + last.up.weight[0]


def with_small_weights() -> ExportedProgram:
    """But in the first layer."""
    model = Decoder([Layer() for _ in range(5)]).eval()
    quantize_(model.layers[1:], Int8WeightOnlyConfig())
    return export(model, (torch.tensor([[7]]), torch.tensor([3])))


@pytest.mark.parametrize(
    "make",
    [
        decoder,
        lambda: export(Tied().eval(), (torch.tensor([[7]]), torch.tensor([3]))),
        with_small_weights,
    ],
    ids=["decoder", "weights used elsewhere", "weights of torchao"],
)
def test_the_program_is_the_same(
    make: Callable[[], ExportedProgram], expanded: Expanded, kept: pytest.MonkeyPatch
) -> None:
    """Byte for byte: the code, and what it says of modules and source lines."""
    program = make()
    found = lowered(program).to_executorch().buffer
    assert [len(paths) for paths in expanded] == [4]
    keep_layers(kept)
    assert lowered(program).to_executorch().buffer == found
    assert [len(paths) for paths in expanded] == [4, 0]


def test_tokens_one_after_the_other(expanded: Expanded) -> None:
    program = decoder()
    model = program.module()
    with Program(bytes(lowered(program).to_executorch().buffer)) as run:
        for step in range(3):
            inputs = torch.tensor([[step + 5]]), torch.tensor([step])
            torch.testing.assert_close(run(*inputs)[0], model(*inputs).detach())
    assert expanded == [PATHS]


@pytest.mark.parametrize(
    "partitioner",
    [CudaPartitioner(target="h100"), MpsPartitioner()],
    ids=["cuda", "mps"],
)
def test_other_devices(partitioner: Partitioner, expanded: Expanded) -> None:
    found = partitioner.plan(decoder())  # type: ignore[attr-defined]
    assert found.is_whole
    assert expanded == [PATHS]


def test_methods_have_layers_of_their_own(expanded: Expanded) -> None:
    model = Decoder([Layer() for _ in range(3)]).eval()
    methods = {
        "token": export(model, (torch.tensor([[7]]), torch.tensor([3]))),
        "prompt": export(model, (torch.tensor([[7, 8]]), torch.tensor([0, 1]))),
    }
    partitioner = CpuPartitioner()
    to_edge_transform_and_lower(methods, partitioner=[partitioner])
    assert expanded == [PATHS[:3], PATHS[:3]]
    assert not partitioner._plan._folded  # nothing is held longer than it is needed


def test_a_plugin_sees_the_ops() -> None:
    class Names:
        @hookimpl(tryfirst=True)
        def aoti_preprocess(self, edge_program: ExportedProgram) -> None:
            nodes = edge_program.graph.nodes
            self.ops = [str(node.target) for node in nodes if node.op == "call_function"]

    names = Names()
    with get_manager().registered(names, "names"):
        lowered(decoder())
    assert sum("index_copy" in op for op in names.ops) == 8
    assert not any("layer" in op for op in names.ops)


def nothing(program: ExportedProgram) -> ExportedProgram:
    return program


class Ignores(Partitioner):
    """Delegates nothing."""

    def partition(self, exported_program: ExportedProgram) -> Any:
        from executorch.exir.backend.partitioner import PartitionResult

        return PartitionResult(exported_program, {})


class Looks:
    """A pass of the user that notes what it sees."""

    def __call__(self, module: torch.fx.GraphModule) -> Any:
        from torch.fx.passes.infra.pass_base import PassResult

        self.graph: Graph = copy.deepcopy(module.graph)
        return PassResult(module, False)


def test_passes_of_the_user_see_the_ops(expanded: Expanded) -> None:
    looks = Looks()
    lowered(decoder(), transform_passes=[looks])
    assert sum("index_copy" in str(node.target) for node in looks.graph.nodes) == 8
    assert expanded == [[]]


def test_an_etrecord_has_the_ops(expanded: Expanded) -> None:
    edge = lowered(decoder(), generate_etrecord=True)
    record = edge._etrecord.edge_dialect_program
    assert sum("index_copy" in str(node.target) for node in record.graph.nodes) == 8
    assert expanded == [[]]


def test_another_partitioner_sees_the_ops(expanded: Expanded) -> None:
    lowered(decoder(), partitioner=[CpuPartitioner(), Ignores()])
    assert expanded == [[]]


def test_who_asks_without_executorch_sees_the_ops() -> None:
    program = CpuPartitioner().transform_for_pre_decomposition(decoder())
    assert not any(map(folded_op.is_folded, program.graph.nodes))


def test_a_layer_that_is_not_delegated(expanded: Expanded) -> None:
    excluded = ["aten.silu.default", "aten.sigmoid.default"]
    edge = lowered(decoder(), partitioner=[CpuPartitioner(exclude=excluded)])
    assert len(expanded) == 5  # four of them are outside
    assert not any(expanded)
    graph = edge.exported_program().graph
    assert sum("aten.sigmoid" in str(node.target) for node in graph.nodes) == 4


def test_a_layer_that_executorch_refuses_alone(
    expanded: Expanded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise ValueError("not this one")

    monkeypatch.setattr(folding, "to_edge_transform_and_lower", refuse)
    with caplog.at_level("DEBUG", logger=folding.__name__):
        lowered(decoder())
    assert expanded == [[]]
    assert "layers.0 by itself is no edge program" in caplog.text


def test_layers_of_a_row_are_one_op(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to one of which somebody else uses what it makes."""
    ops: list[list[list[str]]] = []
    original = backend.expand

    def expand(program: ExportedProgram) -> None:
        found = filter(folded_op.is_folded, program.graph.nodes)
        ops.append([[one.path for one in folded_op.layers_of(node)] for node in found])
        original(program)

    class Watched(Decoder):
        def forward(self, tokens: Tensor, places: Tensor) -> Any:
            x = self.embedding(tokens)
            mask = torch.arange(32) <= places[:, None]
            found = []
            for layer in self.layers:
                x = layer(x, places, mask)
                found.append(x)
            return self.head(x), found[1]

    monkeypatch.setattr(backend, "expand", expand)
    lowered(decoder())
    assert ops == [[PATHS]]
    torch.manual_seed(0)
    model = Watched([Layer() for _ in range(4)]).eval()
    inputs = (torch.tensor([[7]]), torch.tensor([3]))
    program = lowered(export(model, inputs)).to_executorch()
    assert ops[1:] == [[PATHS[:2], PATHS[2:]]]
    with torch.no_grad():
        expected = list(model(*inputs))
    found = Program(bytes(program.buffer))(*inputs)
    torch.testing.assert_close(list(map(torch.as_tensor, found)), expected)


def test_an_op_whose_partitioner_is_gone() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    layer = folded_op.FoldedLayer("layers.0", [x])
    node = folded_op.call(graph, [layer], "layer of nobody", [(0, 0)], [torch.zeros(2)])
    with pytest.raises(LoweringError, match="what node 'layer_default' stands for is not known"):
        folded_op.folded_of(node)


def test_results_are_described_by_the_op() -> None:
    graph = Graph()
    x = graph.placeholder("x")
    wanted = [torch.zeros(3, 2, dtype=torch.bfloat16).t(), torch.zeros(4, dtype=torch.int64)]
    layer = folded_op.FoldedLayer("layers.0", [x])
    results = [(0, 0), (0, 1)]
    node = folded_op.call(graph, [layer], "layer of nobody", results, wanted)
    with torch._subclasses.FakeTensorMode():
        found = folded_op.op()([torch.zeros(1)], *node.args[1:])
    assert [(one.dtype, one.shape, one.stride()) for one in found] == [
        (one.dtype, one.shape, one.stride()) for one in wanted
    ]


def test_module_paths_are_those_of_each_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    stacks: list[str] = []
    original = backend.expand

    def expand(program: ExportedProgram) -> None:
        original(program)
        for node in program.graph.nodes:
            if node.op == "call_function" and node.target is not operator.getitem:
                stacks.extend(str(path) for path, _ in node.meta["nn_module_stack"].values())

    monkeypatch.setattr(backend, "expand", expand)
    lowered(decoder())
    for path in PATHS:
        assert stacks.count(f"{path}.down") == stacks.count("layers.0.down") > 0
