"""A few of many equal layers are generated, and the code of the whole program is a loop."""

from __future__ import annotations

import dataclasses
import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from decoder_blocks import Block
from executorch.exir import ExecutorchProgramManager, to_edge_transform_and_lower
from support import ROOT
from torch import Tensor, nn
from torch.export import ExportedProgram, export
from torch.fx import Node
from torch.nn import functional
from torchao.quantization import Int8WeightOnlyConfig, quantize_
from unrolled import has_loop, unrolled

from aoti_plugins import CpuPartitioner, CudaPartitioner
from aoti_plugins.lowering import pipeline
from aoti_plugins.lowering.decompositions import CPU_DECOMPOSITIONS, is_decomposed
from aoti_plugins.lowering.inductor.capture import GeneratedCode
from aoti_plugins.lowering.inductor.loops import looped
from aoti_plugins.lowering.inductor.repeated_statements import NoLoopError
from aoti_plugins.lowering.layers.short_program import (
    KEPT,
    LEAST,
    ShortProgram,
    is_generated,
    is_in_memory,
)
from aoti_plugins.lowering.layers.stored_between import store_between_layers
from aoti_plugins.lowering.support import module_path, op_name
from aoti_plugins.payload import KernelRef, decode
from aoti_plugins.runtime import Program

sys.path.insert(0, str(ROOT / "benchmarks"))
from gpu_models import Shape, llama, prompt, small_weights

WIDTH = 16
WIDE = 256
LAYERS = LEAST + 2


class Layer(nn.Module):
    """Products with weights of 8 bits, of which the last is what the next layer gets; and state."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.Parameter(torch.rand(WIDTH) + 0.5)
        self.gate, self.down = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH)
        self.register_buffer("seen", torch.zeros(4, WIDTH))
        self.register_buffer("scale", torch.tensor([0.5]))

    def forward(self, x: Tensor, place: Tensor) -> Tensor:
        self.seen.index_copy_(0, place, x)
        x = (x + self.seen.mean(0)) * self.norm * self.scale
        return self.down(functional.silu(self.gate(x)))


class Model(nn.Module):
    """Layers with what each model has around them."""

    def __init__(self, layers: int = LAYERS, outputs: Sequence[int] = ()) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(8, WIDTH), nn.Linear(WIDTH, 5)
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.outputs = outputs
        quantize_(self.layers, Int8WeightOnlyConfig())

    def forward(self, x: Tensor, place: Tensor) -> list[Tensor]:
        x = self.first(x)
        found = []
        for number, layer in enumerate(self.layers):
            x = layer(x, place)
            found += [x] if number in self.outputs else []
        return [self.last(x), *found]


def exported(model: nn.Module) -> ExportedProgram:
    return export(model.eval(), (torch.randn(1, 8), torch.tensor([1])))


def lowered(model: nn.Module, **options: Any) -> ExecutorchProgramManager:
    partitioner = CpuPartitioner(**options)
    return to_edge_transform_and_lower(exported(model), partitioner=[partitioner]).to_executorch()


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What becomes of attempts to write a loop: ``"loop"``, or why there is none."""
    said: list[str] = []

    def attempt(code: GeneratedCode, short: ShortProgram) -> GeneratedCode:
        try:
            found = looped(code, short)
        except NoLoopError as error:
            said.append(str(error))
            raise
        said.append("loop")
        return found

    monkeypatch.setattr(pipeline, "looped", attempt)
    return said


@pytest.fixture
def without_loops(attempts: list[str]) -> Iterator[pytest.MonkeyPatch]:
    """Until it is undone, whole programs are generated."""

    def refuse(code: GeneratedCode, short: ShortProgram) -> GeneratedCode:
        raise NoLoopError("for a test")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "looped", refuse)
        yield patch


def test_results_and_state(attempts: list[str], tmp_path: Path) -> None:
    """Three calls, of which each sees what those before it have left in each layer."""
    model = Model()
    program = lowered(model, keep_sources=str(tmp_path))
    assert attempts == ["loop"]
    (wrapper,) = tmp_path.rglob("wrapper.cpp")
    assert wrapper.read_text().count("for (size_t aotip_layer = 0; aotip_layer < ") > 1
    runs = Program(bytes(program.buffer))
    for call in range(3):
        x, place = torch.randn(1, 8), torch.tensor([call])
        with torch.no_grad():
            expected = model(x, place)
        torch.testing.assert_close(list(map(torch.as_tensor, runs(x, place))), expected)


@pytest.mark.parametrize("layers", [LEAST + 1, LEAST + 5])
def test_as_many_as_there_are(attempts: list[str], layers: int) -> None:
    model = Model(layers)
    x, place = torch.randn(1, 8), torch.tensor([2])
    (found,) = Program(bytes(lowered(model).buffer))(x, place)
    assert attempts == ["loop"]
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(found), model(x, place)[0])


def test_few_layers_are_all_generated(attempts: list[str]) -> None:
    lowered(Model(LEAST - 1))
    assert attempts == []


def test_results_of_several_layers(attempts: list[str]) -> None:
    """Nobody but the next layer may use what one makes."""
    model = Model(outputs=(3, LAYERS - 2))
    x, place = torch.randn(1, 8), torch.tensor([2])
    found = Program(bytes(lowered(model).buffer))(x, place)
    assert attempts == []
    with torch.no_grad():
        torch.testing.assert_close(list(map(torch.as_tensor, found)), model(x, place))


def test_a_weight_that_is_used_in_front_of_the_layers_as_well(attempts: list[str]) -> None:
    """One of a layer that is left out."""

    class Tied(Model):
        def forward(self, x: Tensor, place: Tensor) -> list[Tensor]:
            return super().forward(x * self.layers[LAYERS - 3].norm[:8], place)

    model = Tied()
    x, place = torch.randn(1, 8), torch.tensor([2])
    (found,) = Program(bytes(lowered(model).buffer))(x, place)
    assert attempts == [f"layers.{LAYERS - 3}.norm is not for its layer alone"]
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(found), model(x, place)[0])


def test_a_constant_that_is_called_as_a_variable_could_be(attempts: list[str]) -> None:
    """Each layer uses it: in the loop its name stands for nothing else."""

    class Named(Model):
        def __init__(self) -> None:
            super().__init__()
            for name in ("layer", "place", "number"):
                self.register_buffer(name, torch.rand(WIDTH))

        def forward(self, x: Tensor, place: Tensor) -> list[Tensor]:
            x = self.first(x)
            for one in self.layers:
                x = one(x * self.layer + self.number - self._buffers["place"], place)
            return [self.last(x)]

    model = Named()
    x, place = torch.randn(1, 8), torch.tensor([2])
    (found,) = Program(bytes(lowered(model).buffer))(x, place)
    assert attempts == ["loop"]
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(found), model(x, place)[0])


def test_a_number_that_one_layer_has_otherwise(attempts: list[str]) -> None:
    """Inductor writes such into the code."""
    model = Model()
    model.layers[LAYERS - 3].scale.fill_(2.0)  # none of those that would be generated
    x, place = torch.randn(1, 8), torch.tensor([2])
    (found,) = Program(bytes(lowered(model).buffer))(x, place)
    assert attempts == []
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(found), model(x, place)[0])


def test_a_layer_with_other_numbers_between(attempts: list[str]) -> None:
    class Odd(Layer):
        def forward(self, x: Tensor, place: Tensor) -> Tensor:
            return super().forward(x, place) * 3

    model = Model()
    model.layers[LAYERS // 2] = Odd()
    x, place = torch.randn(1, 8), torch.tensor([2])
    (found,) = Program(bytes(lowered(model).buffer))(x, place)
    assert attempts == []
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(found), model(x, place)[0])


class Blocks(nn.Module):
    """As many blocks of a decoder as make a loop on an NVIDIA GPU, where kernels add residuals."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(
            Block(
                joined=True, inside=False, bias=False, activation=nn.SiLU(), width=WIDE, hidden=2048
            )
            for _ in range(LAYERS)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


def said_of_kernels() -> tuple[tuple[KernelRef, ...], dict[str, list[tuple[str, str]]]]:
    """What a program for a GPU says of its kernels, and of which ops and modules each is."""
    program = export(Blocks().bfloat16().eval(), (torch.randn(1, 1, WIDE).bfloat16(),))
    edge = to_edge_transform_and_lower(
        program, partitioner=[CudaPartitioner(target="h100")], generate_etrecord=True
    )
    module = edge.exported_program().graph_module
    (delegate,) = (one for _, one in module.named_modules() if hasattr(one, "processed_bytes"))
    ops = {
        node.meta["debug_handle"]: (op_name(node), module_path(node))
        for node in delegate.original_module.graph.nodes
        if node.op == "call_function" and "debug_handle" in node.meta
    }
    (target,) = decode(delegate.processed_bytes).targets
    handles = {
        kernel: [ops[one] for one in found]
        for kernel, found in delegate.meta["debug_handle_map"].items()
        if "." not in kernel  # what it writes is called as the variable, which a loop has but once
    }
    return target.kernels, handles


def test_what_is_said_of_kernels(attempts: list[str], without_loops: pytest.MonkeyPatch) -> None:
    """The same as without a loop: ops, modules and lines of each layer's kernels."""
    kernels, handles = said_of_kernels()
    without_loops.undo()
    assert attempts == []
    assert said_of_kernels() == (kernels, handles)
    assert attempts == ["loop"]
    assert len(kernels) >= 2 * LAYERS
    modules = {name for one in kernels for name in one.modules}
    assert all(any(f"layers.{number} " in name for name in modules) for number in range(LAYERS))


def wrapper_of(model: nn.Module, inputs: Any, folder: Path, target: str = "h100") -> str:
    """The wrapper of a program for a GPU, or for the CPU."""
    folder.mkdir(exist_ok=True)
    make = CpuPartitioner if target == "cpu" else functools.partial(CudaPartitioner, target=target)
    partitioner = make(keep_sources=str(folder))
    to_edge_transform_and_lower(export(model.eval(), inputs), partitioner=[partitioner])
    (path,) = folder.glob("*/wrapper.cpp")
    return path.read_text()


def small_decoder(bits: int) -> tuple[nn.Module, Any]:
    """A token of a language model with caches; ``bits`` of the weights of products."""
    shape = Shape(LAYERS, 64, capacity=64, width=WIDE, heads=4, kv_heads=2, hidden=512)
    return small_weights(bits, 32, shape)


@pytest.mark.parametrize("bits", [4, 8])
def test_the_same_statements_in_the_same_order(
    bits: int, attempts: list[str], without_loops: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of a decoder: which kernel is called with which variables and constants, layer by layer."""
    whole = wrapper_of(*small_decoder(bits), tmp_path / "whole")
    without_loops.undo()
    short = wrapper_of(*small_decoder(bits), tmp_path / "short")
    assert attempts == ["loop"]
    assert has_loop(short)
    assert not has_loop(whole)
    assert len(short) < len(whole)
    assert unrolled(short) == unrolled(whole)


def encoder() -> tuple[nn.Module, Any]:
    """Layers whose sums and norms are Inductor's."""
    torch.manual_seed(0)
    layers = (nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(LAYERS))
    return nn.Sequential(*layers).eval(), (torch.randn(2, 7, 16),)


def token() -> tuple[nn.Module, Any]:
    """A token of a language model: a mask and angles that all layers use, and caches."""
    model, inputs = llama(Shape(LAYERS, 64, capacity=128, width=32, heads=4, kv_heads=2, hidden=48))
    return model.float(), inputs


def prompt_of_halves() -> tuple[nn.Module, Any]:
    """A prompt for a GPU, with weights of 16 bits."""
    shape = Shape(LAYERS, 64, capacity=512, width=WIDE, heads=4, kv_heads=2, hidden=512)
    return prompt(llama(shape))


@pytest.mark.parametrize(
    ("make", "target"),
    [(encoder, "cpu"), (token, "cpu"), (encoder, "h100"), (prompt_of_halves, "h100")],
)
def test_layers_that_add_to_a_sum(
    make: Callable[[], Any],
    target: str,
    attempts: list[str],
    without_loops: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The sums are stored, and so is what all layers share: each is like the one before it."""
    whole = wrapper_of(*make(), tmp_path / "whole", target)
    without_loops.undo()
    short = wrapper_of(*make(), tmp_path / "short", target)
    assert attempts == ["loop"]
    assert has_loop(short)
    assert not has_loop(whole)
    assert unrolled(short) == unrolled(whole)


@pytest.mark.parametrize(
    ("make", "target", "has_mask"), [(token, "cpu", False), (prompt_of_halves, "h100", True)]
)
def test_what_is_stored_of_what_layers_share(
    make: Callable[[], Any], target: str, has_mask: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Angles, and a mask if a kernel of ours reads it: one that Inductor generates computes it."""
    found: list[ExportedProgram] = []

    def keep(program: ExportedProgram, is_decomposed: Callable[[Node], bool]) -> None:
        store_between_layers(program, is_decomposed)
        found.append(program)

    monkeypatch.setattr(pipeline, "store_between_layers", keep)
    model, inputs = make()
    partitioner = CpuPartitioner() if target == "cpu" else CudaPartitioner(target=target)
    to_edge_transform_and_lower(export(model, inputs), partitioner=[partitioner])
    (program,) = found
    stored = program.graph.find_nodes(
        op="call_function", target=torch.ops.aoti_plugins.stored.default
    )
    dtypes = [node.meta["val"].dtype for node in stored]
    assert dtypes.count(torch.bool) == has_mask
    assert len(stored) > LAYERS - 2  # a sum of each layer


@pytest.mark.parametrize(
    ("target", "is_known"),
    [
        (torch.ops.aten.add.Tensor, True),
        (torch.ops.dim_order_ops._clone_dim_order.default, True),  # ExecuTorch's name for clone
        (torch.ops.aoti_plugins.packed_weight.default, True),  # of which another op is made
        (torch.ops.aoti_plugins.stored.default, False),
    ],
)
def test_what_inductor_may_compute_anew(target: Any, is_known: bool) -> None:
    graph = torch.fx.Graph()
    node = graph.call_function(target, (graph.placeholder("x"),))
    graph.call_function(torch.ops.aten.relu.default, (node,))
    is_ours = functools.partial(is_decomposed, table=CPU_DECOMPOSITIONS)
    assert is_generated(node, is_ours) == is_known
    assert is_in_memory(node, is_ours) != is_known


def nodes_by_stage(model: nn.Module) -> dict[str, list[int]]:
    """How many nodes each program has that is decomposed, and how often code is generated."""
    found: dict[str, list[int]] = {"decomposed": [], "generated": []}
    decompose, generate = ExportedProgram.run_decompositions, pipeline.generate

    def decomposed(program: ExportedProgram, *args: Any) -> ExportedProgram:
        found["decomposed"].append(len(program.graph.nodes))
        return decompose(program, *args)

    def generated(module: Any, *args: Any) -> GeneratedCode:
        found["generated"].append(len(module.graph.nodes))
        return generate(module, *args)

    with pytest.MonkeyPatch.context() as patch:
        program = exported(model)
        edge = to_edge_transform_and_lower(program)
        patch.setattr(ExportedProgram, "run_decompositions", decomposed)
        patch.setattr(pipeline, "generate", generated)
        edge.to_backend(CpuPartitioner())
    return found


def test_layers_that_are_left_out_are_not_decomposed(attempts: list[str]) -> None:
    """Each writes to its state by an op that is: twice as many layers, and as many nodes."""
    few, many = nodes_by_stage(Model()), nodes_by_stage(Model(2 * LAYERS))
    assert attempts == ["loop", "loop"]
    assert few == many
    assert len(few["decomposed"]) == len(few["generated"]) == 1


def test_where_there_is_no_loop_all_layers_are_decomposed(without_loops: object) -> None:
    """Once, when the attempt has failed."""
    found = nodes_by_stage(Model())
    short, whole = found["decomposed"]
    assert short < whole
    assert found["generated"][0] < found["generated"][1]


@pytest.mark.parametrize("make", [encoder, token])
def test_results_of_layers_that_add_to_a_sum(make: Callable[[], Any], attempts: list[str]) -> None:
    model, inputs = make()
    edge = to_edge_transform_and_lower(export(model, inputs), partitioner=[CpuPartitioner()])
    runs = Program(bytes(edge.to_executorch().buffer))
    assert attempts == ["loop"]
    for _ in range(3):  # caches are written to
        with torch.no_grad():
            expected = model(*inputs)
        torch.testing.assert_close(torch.as_tensor(runs(*inputs)[0]), expected)


@pytest.fixture(scope="module")
def generated() -> tuple[GeneratedCode, ShortProgram]:
    """What Inductor made of a program of which layers were left out."""
    found: list[tuple[GeneratedCode, ShortProgram]] = []

    def keep(code: GeneratedCode, short: ShortProgram) -> GeneratedCode:
        found.append((code, short))
        return looped(code, short)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "looped", keep)
        lowered(Model())
    return found[0]


def test_constants_of_layers_that_were_left_out(
    generated: tuple[GeneratedCode, ShortProgram],
) -> None:
    code, short = generated
    assert short.left_out == LAYERS - KEPT
    constants = looped(code, short).constants
    assert len(constants) > len(code.constants)
    assert len({one.name for one in constants}) == len({one.fqn for one in constants})
    values = {one.fqn: one.value for one in constants}
    for chain in short.constants:
        assert all(torch.equal(values[fqn], short.values[fqn]) for fqn in chain if fqn in values)
    assert {one.fqn for one in constants if one.mutated} == {
        f"layers.{number}.seen" for number in range(LAYERS)
    }


Edit = Callable[[str], str]
END = "\n} // AOTInductorModel::run_impl"


def all_used_at_the_end(wrapper: str) -> str:
    names = re.findall(r"^    RAIIAtenTensorHandle (\w+)\(", wrapper, re.M)
    return wrapper.replace(END, "".join(f"\n    {name}.reset();" for name in names) + END)


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda text: text.replace("[[maybe_unused]] auto& first_bias", "auto& first_bias"),
         "not named once"),
        (lambda text: text.replace("::aotip::describe_constant(", "describe(", 1),
         "not described as expected"),
        (lambda text: text.replace("AOTInductorModelBase(2,", "AOTInductorModelBase(n,"),
         "not described as expected"),
        (all_used_at_the_end, "uses what was in front of it|is used behind it"),
        (lambda text: text.replace(END, f"\n    layers_0_norm.use();{END}"),
         "used in it and behind it"),
        (lambda text: text.replace(END, f'\n    auto text = R"(\n)";{END}'),
         "strings of several lines"),
        (lambda text: re.sub(r"layers_(\d)_gate\w*", "layers_2_norm", text),
         "passes are not|in the next pass|not all"),
        (lambda text: re.sub(r"(RAIIAtenTensorHandle|auto) (buf\d+\b)", r"Plain \2", text),
         "does not own"),
    ],
)  # fmt: skip
def test_texts_that_have_no_loop(
    generated: tuple[GeneratedCode, ShortProgram], edit: Edit, reason: str
) -> None:
    code, short = generated
    text = edit(code.wrapper)
    assert text != code.wrapper
    with pytest.raises(NoLoopError, match=reason):
        looped(dataclasses.replace(code, wrapper=text), short)


def test_where_there_is_no_loop_all_is_generated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(code: GeneratedCode, short: ShortProgram) -> GeneratedCode:
        raise NoLoopError("for a test")

    monkeypatch.setattr(pipeline, "looped", refuse)
    model = Model()
    x, place = torch.randn(1, 8), torch.tensor([2])
    with caplog.at_level("DEBUG", logger=pipeline.__name__):
        (found,) = Program(bytes(lowered(model).buffer))(x, place)
    assert "for a test" in caplog.text
    with torch.no_grad():
        torch.testing.assert_close(torch.as_tensor(found), model(x, place)[0])
