"""Many questions asked as one graph: the answers are those to each of them alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.fx import Node, symbolic_trace

from aoti_plugins import CpuPartitioner, CudaPartitioner, MpsPartitioner
from aoti_plugins.lowering.inductor import generated_ops
from aoti_plugins.lowering.inductor import probe as probing
from aoti_plugins.lowering.inductor.joined_graphs import joined, num_outputs
from aoti_plugins.lowering.inductor.probe import Probe
from aoti_plugins.lowering.inductor.shim_owners import Share, shims_of_each
from aoti_plugins.lowering.partitioner import DevicePartitioner
from aoti_plugins.lowering.support import Support

PARTITIONERS: dict[str, Callable[[], DevicePartitioner]] = {
    "cpu": lambda: CpuPartitioner(target="x86_64-v3"),
    "cuda": lambda: CudaPartitioner(target="h100"),
    "mps": MpsPartitioner,
}
# Launching a generated kernel takes these; they are known of all graphs or of none.
LAUNCHES = (
    "aoti_torch_empty_strided",
    "aoti_torch_mps_create_shader_library",
    "aoti_torch_mps_delete_shader_library",
    "aoti_torch_mps_dispatch",
    "aoti_torch_mps_get_kernel_function",
    "aoti_torch_mps_run_command_block",
    "aoti_torch_mps_set_arg",
    "aoti_torch_mps_start_encoding",
)


class Ops(nn.Module):
    """Ops that are generated, ones that are kernels, and ones between kernels of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.table = nn.Embedding(10, 4)

    def forward(self, x: Tensor, image: Tensor, ids: Tensor) -> tuple[Tensor, ...]:
        sizes = torch.zeros(4), torch.full((4,), 0.0), torch.arange(7)
        return (
            x @ x.t(),
            torch.addmm(x, x, x.t() @ x),
            (x.to(torch.complex64) * 2).real,
            self.conv(image).contiguous(memory_format=torch.channels_last).relu(),
            self.table(ids),
            *x.sort(1),
            *x.topk(2),
            x.cumsum(0),
            x.softmax(1),
            x.sum(1),
            x > 0,
            (x > 0) & (x < 1),
            x[ids],
            torch.cat([x, x], 1),
            nn.functional.layer_norm(x, (4,)),
            torch.bmm(x[None], x.t()[None]),
            x.max(1)[0],
            *sizes,
        )


@pytest.fixture(scope="module")
def nodes() -> list[Node]:
    inputs = torch.randn(4, 4), torch.randn(1, 3, 8, 8), torch.tensor([1, 2, 3, 0])
    exported = torch.export.export(Ops(), inputs).run_decompositions({})
    return [n for n in exported.graph.nodes if n.op == "call_function"]


def parts_of(device: str) -> tuple[Support, Probe]:
    support = PARTITIONERS[device]()._plan.support()
    return support, support._probes[0]


@pytest.mark.parametrize("device", PARTITIONERS)
def test_answers_are_those_of_single_questions(device: str, nodes: list[Node]) -> None:
    support, probe = parts_of(device)
    support.prepare(nodes)
    together = dict(probe._answers)
    assert len(together) > 12
    asked = [node for node in nodes if probing._question_of(node).key in together]
    probe._answers.clear()
    for node in asked:
        alone, answer = probe.ask(node), together[probing._question_of(node).key]
        extra = answer.shims - alone.shims
        assert not [shim for shim in extra if not shim.startswith(LAUNCHES)], node
        assert alone.shims <= answer.shims, node
        assert (alone.proxy_ops, alone.error) == ((), ""), node
        assert alone.is_decomposed == answer.is_decomposed, node


def test_a_kernel_is_said_to_be_called_only_by_its_own_op(nodes: list[Node]) -> None:
    support, probe = parts_of("cpu")
    support.prepare(nodes)
    of = {str(op): answer.shims for (op, _, _), answer in probe._answers.items()}
    calling = {op for op, shims in of.items() if "aoti_torch_cpu_sort_stable" in shims}
    assert calling == {"aten.sort.default"}
    assert "aoti_torch_cpu_topk" in of["aten.topk.default"]


def test_what_one_op_refuses_leaves_the_others(nodes: list[Node]) -> None:
    class Refused(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            return torch.cdist(x, x), x.amin(1), x.cumsum(0), x @ x.t(), x.amax(0)

    exported = torch.export.export(Refused(), (torch.randn(4, 6),)).run_decompositions({})
    some = [n for n in exported.graph.nodes if n.op == "call_function"]
    support, probe = parts_of("cpu")
    support.prepare(some)
    known = {str(op) for op, _, _ in probe._answers}
    assert {"aten.amin.default", "aten.cumsum.default", "aten.amax.default"} <= known
    refused = {str(node.target) for node in some if support.refusal(node) is not None}
    assert refused == {"aten.cdist.default"}


def test_a_failure_that_is_not_an_ops_is_left_to_who_asks(
    nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    support, probe = parts_of("cpu")
    tries = []

    def full(*args: object, **options: object) -> None:
        tries.append(args)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch._inductor, "aot_compile", full)
    support.prepare(nodes)
    assert len(tries) == 1
    assert probe._answers == {}


def test_few_questions_are_not_asked_together(nodes: list[Node]) -> None:
    support, probe = parts_of("cpu")
    support.prepare([node for node in nodes if "cumsum" in node.name])
    assert probe._answers == {}


def test_joined_graphs_compute_what_each_does() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor([2.0]))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * self.scale, x + 1

    parts = [symbolic_trace(Scaled()), symbolic_trace(nn.Tanh()), symbolic_trace(Scaled())]
    inputs = [[torch.randn(2)], [torch.randn(3)], [torch.randn(4)]]
    module, given = joined(list(zip(parts, inputs, strict=True)))
    assert [num_outputs(part) for part in parts] == [2, 1, 2]
    found = module(*given)
    expected = [
        *parts[0](*inputs[0]),
        parts[1](*inputs[1]),
        *parts[2](*inputs[2]),
    ]
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


WRAPPER = """
int32_t arg0_1_expected_dtype = aoti_torch_dtype_bool();
void AOTInductorModel::run_impl(
    Handles inputs
) {
    // a comment about buf0 and arg1_1
    aoti_torch_grad_mode_set_enabled(false);
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(&buf0_handle));
    RAIIAtenTensorHandle buf0(buf0_handle);
    cpp_fused_0(arg0_1, buf0, arg1_1, buf1);
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf2, buf0, buf0));
    auto var_0 = wrap(reinterpret_tensor_wrapper(arg1_1));
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_sort(var_0, buf3));
    output_handles[0] = buf2.release();
    output_handles[1] = buf1.release();
}
"""


def test_calls_belong_to_whose_values_they_read_and_write() -> None:
    first, second = shims_of_each(WRAPPER, [Share(1, 1), Share(1, 1)])
    everybodys = {"aoti_torch_grad_mode_set_enabled"}
    assert first == everybodys | {
        "aoti_torch_dtype_bool",
        "aoti_torch_empty_strided",
        "aoti_torch_cpu_mm_out",
    }
    assert second == everybodys | {"aoti_torch_cpu_sort"}


def test_a_call_between_generated_kernels_may_be_of_any_graph_that_meets_it() -> None:
    between = WRAPPER.replace("buf2.release()", "buf4.release()").replace(
        "output_handles[0]", "cpp_fused_1(buf2, buf4);\n    output_handles[0]"
    )
    assert shims_of_each(between, [Share(1, 1), Share(1, 1)]) == [None, None]


def test_a_wrapper_that_reads_otherwise_answers_nothing() -> None:
    other = WRAPPER.replace("output_handles", "outputs")
    assert shims_of_each(other, [Share(1, 1), Share(1, 1)]) == [None, None]


def test_a_call_between_generated_kernels_is_its_own_graphs() -> None:
    class Convolutions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.some = nn.ModuleList(nn.Conv2d(3, 8, size, stride=size) for size in (2, 3, 4))

        def forward(self, image: Tensor) -> list[Tensor]:
            return [conv(image) for conv in self.some]

    exported = torch.export.export(Convolutions(), (torch.randn(1, 3, 24, 24),))
    some = [n for n in exported.graph.nodes if n.op == "call_function"]
    support, probe = parts_of("cuda")
    support.prepare(some)
    found = [answer for (op, _, _), answer in probe._answers.items() if "conv2d" in str(op)]
    assert len(found) == len(some)
    assert all("aoti_torch_cuda_convolution" in answer.shims for answer in found)


_NORM = (False, 0.1, 1e-5, True)  # no training, momentum, epsilon, cuDNN


class LikePointwise(nn.Module):
    """Ops about which nobody is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x: Tensor) -> list[Tensor]:
        aten = torch.ops.aten
        return [
            self.norm(x),
            aten.hardswish(x),
            aten.hardsigmoid(x),
            aten.stack([x, x], 1),
            aten.contiguous(x.mT),
            aten.constant_pad_nd(x, [1, 2, -1, 0], 0.5),
            aten.flatten(x.mT, 1),
            aten._unsafe_view(x, [4, -1]),
            aten.cat([x, x[:1], x], 0),
            aten.cat([x, x], -1),
            aten.pad(x, [1, 2, -1, 0], "constant", 0.5),
            aten.pad(x, [3, 0]),
            aten.softmax(x, 1),
            aten.softmax(x.mT, -1),
            aten._softmax(x, -1, False),
            aten.sum(x, [1, 3]),
            aten.sum(x.mT, [0], True),
            aten.mean(x, [2, 3], True),
            aten.mean(x, [-1]),
            aten.dropout(x, 0.5, False),
            aten.batch_norm(x, None, None, self.norm.running_mean, self.norm.running_var, *_NORM),
        ]


@pytest.mark.parametrize("device", PARTITIONERS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", [(2, 4, 3, 5), (1, 4, 1, 1), (2, 4, 16, 64)])
def test_what_is_not_asked_about_is_generated(
    device: str, dtype: torch.dtype, sizes: tuple[int, ...]
) -> None:
    if device == "mps" and dtype is torch.float64:
        pytest.skip("Apple GPUs have no such numbers")
    model = LikePointwise().eval().to(dtype)
    exported = torch.export.export(model, (torch.randn(sizes).to(dtype),))
    programs = [exported, exported.run_decompositions({})]
    some = [n for p in programs for n in p.graph.nodes if n.op == "call_function"]
    _, probe = parts_of(device)
    asked = [n for n in some if generated_ops.is_like_pointwise(n.target, n) and probe._is_known(n)]
    ops = {n.target for n in asked}
    assert torch.ops.aten.batch_norm.default in ops
    aten = torch.ops.aten
    assert aten.pad.default in ops
    ops -= {aten.dropout.default, aten.batch_norm.default, aten.pad.default}
    assert ops == generated_ops.LIKE_POINTWISE, generated_ops.LIKE_POINTWISE - ops
    of_device = f"aoti_torch_{device}_"
    questions = {(q := probing._question_of(node)).key: q for node in asked}
    for question in questions.values():
        answer = probe._answer(question)
        called = {shim for shim in answer.shims if shim.startswith(of_device)}
        called = {shim for shim in called if not shim.startswith(LAUNCHES)}
        assert (answer.error, answer.proxy_ops, called) == ("", (), set()), question.op


def test_what_a_plugin_decomposes_is_asked_about() -> None:
    def doubled(tensors: list[Tensor], dim: int = 0) -> Tensor:
        if tensors[0].shape[0] == 3:
            raise RuntimeError("not of three")
        return torch.stack(tensors, dim).flatten(dim, dim + 1)

    class Cats(nn.Module):
        def forward(self, x: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, ...]:
            return torch.cat([x, x]), torch.cat([y, y]), torch.cat([z, z])

    inputs = torch.randn(2, 4), torch.randn(3, 4), torch.zeros(2, 4, dtype=torch.int8)
    exported = torch.export.export(Cats(), inputs)
    cats = exported.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
    _, probe = parts_of("cpu")
    assert [probe._is_known(node) for node in cats] == [True, True, False]
    probe._decompositions[torch.ops.aten.cat.default] = doubled
    probe._left_as_they_are.clear()
    assert [probe._is_known(node) for node in cats] == [False, False, False]
    assert probe.ask(cats[0]).is_decomposed


def test_a_decomposition_that_is_tried_sees_no_unknown_sizes() -> None:
    seen: list[object] = []

    def looks(tensors: list[Tensor], dim: int = 0) -> object:
        seen.extend(tensors[0].shape)
        return NotImplemented

    class Joined(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, x])

    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(Joined(), (torch.randn(8, 4),), dynamic_shapes=({0: rows},))
    (cat,) = exported.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
    _, probe = parts_of("cpu")
    probe._decompositions[cat.target] = looks
    assert probe._is_known(cat)
    assert probe._is_known(cat)
    assert [type(size) for size in seen] == [int, int]  # tried once
