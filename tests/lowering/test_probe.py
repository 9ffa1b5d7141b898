"""What Inductor says about single nodes, and what the partitioner makes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest
import torch
from torch.fx import Node

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cpu.device import CPU, INDUCTOR_OPTIONS
from aoti_plugins.cpu.target import TARGETS
from aoti_plugins.lowering import runtime_shims
from aoti_plugins.lowering.executorch_kernels import missing_kernel
from aoti_plugins.lowering.inductor.probe import Answer, Probe
from aoti_plugins.lowering.support import Refusal, Support, warn
from aoti_plugins.plugin_system.manager import get_manager

TARGET = next(t for t in TARGETS if t.name == "x86_64-v3")


@pytest.fixture
def probe() -> Probe:
    return Probe(INDUCTOR_OPTIONS, {}, (), lambda: CPU.environment(TARGET, LoweringOptions()))


@pytest.fixture
def support(probe: Probe) -> Support:
    kernels = get_manager().fallback_kernels("cpu")
    return Support(CPU, [probe], runtime_shims.available(CPU, kernels))


def _node(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Node:
    """The last op of an exported function."""

    class Model(torch.nn.Module):
        def forward(self, *args: torch.Tensor) -> torch.Tensor:
            return function(*args)

    exported = torch.export.export(Model(), inputs).run_decompositions({})
    return [n for n in exported.graph.nodes if n.op == "call_function"][-1]


X = torch.randn(4, 6)


def test_generated_ops_call_no_kernel_of_the_device(probe: Probe) -> None:
    for function in (torch.relu, lambda x: x.sum(1), lambda x: torch.softmax(x, 1)):
        answer = probe.ask(_node(function, X))
        assert not answer.error
        assert not answer.proxy_ops
        assert not [shim for shim in answer.shims if shim.startswith("aoti_torch_cpu_")]


def test_matrix_product_calls_a_kernel(probe: Probe) -> None:
    answer = probe.ask(_node(lambda x: x @ x.t(), X))
    assert "aoti_torch_cpu_mm_out" in answer.shims


def test_an_op_without_a_shim_needs_the_proxy_executor(probe: Probe) -> None:
    answer = probe.ask(_node(lambda x: torch.cdist(x, x), X))
    assert answer.proxy_ops or "aoti_torch_cpu__cdist_forward" in answer.shims


def test_answers_are_kept(probe: Probe, monkeypatch: pytest.MonkeyPatch) -> None:
    node = _node(lambda x: x.amax(1), X)
    first = probe.ask(node)
    monkeypatch.setattr(probe, "_answer", None)
    assert probe.ask(node) is first


VIEWED = (
    lambda x: x[1:, ::2],
    lambda x: x.reshape(3, 8),
    lambda x: x.t(),
    lambda x: x[:, None].expand(4, 2, 6),
    lambda x: x.unfold(0, 2, 1),
    lambda x: x.diagonal(),
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8, torch.bool], ids=str)
def test_views_need_no_question(
    probe: Probe, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    nodes = [_node(function, X.to(dtype)) for function in VIEWED]
    with monkeypatch.context() as asking:
        asking.setattr("aoti_plugins.lowering.inductor.probe.is_view", lambda *_: False)
        asked = [probe.ask(node) for node in nodes]
    assert not any(answer.error or answer.proxy_ops for answer in asked)
    assert not any("aoti_torch_cpu_" in shim for answer in asked for shim in answer.shims)
    monkeypatch.setattr(probe, "_answer", None)
    assert [probe.ask(node) for node in nodes] == [Answer()] * len(nodes)


def test_views_of_complex_numbers_are_asked_about(
    probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe, "_answer", None)
    with pytest.raises(TypeError):
        probe.ask(_node(lambda x: x.t(), X.to(torch.complex64)))


def test_supported(support: Support) -> None:
    assert support.refusal(_node(lambda x: x @ x.t(), X)) is None


def test_dtype_that_a_kernel_does_not_take(support: Support) -> None:
    refusal = support.refusal(_node(lambda x: x @ x.t(), X.to(torch.complex64)))
    assert refusal is not None
    assert refusal.reason
    assert "test_probe.py" in refusal.source


def test_missing_kernel_is_named(support: Support) -> None:
    refusal = support.refusal(_node(lambda x: torch.cdist(x, x), X))
    assert refusal is not None
    assert refusal.op == "aten.cdist.default"
    assert "cdist" in refusal.reason
    assert "aoti_fallback_kernels" in refusal.remedy


def test_warning_counts_and_groups(caplog: pytest.LogCaptureFixture) -> None:
    one = Refusal("a", "aten.x.default", "no kernel", "a plugin", "block.0", "model.py, line 3")
    two = Refusal("b", "aten.x.default", "no kernel", "a plugin", "block.1", "model.py, line 3")
    warn([one, two], "cpu")
    (record,) = caplog.records
    assert record.getMessage() == (
        "2 node(s) stay outside the cpu delegate, for ExecuTorch's own kernels:\n"
        "- aten.x.default (node 'a'): no kernel\n"
        "    module: block.0\n"
        "    source: model.py, line 3\n"
        "    to delegate it: a plugin (and 1 more like it)"
    )
    caplog.clear()
    warn([dataclasses.replace(one, kernel="ExecuTorch has no kernel acme::x.out")], "cpu")
    lines = caplog.records[0].getMessage().splitlines()
    assert lines[-2:] == [
        "    ExecuTorch has no kernel acme::x.out",
        "    to delegate it: a plugin",
    ]
    caplog.clear()
    warn([], "cpu")
    assert not caplog.records


@pytest.fixture
def ops() -> Iterator[None]:
    """Two ops that nobody has kernels for; one has a form that writes to an output."""
    with torch.library._scoped_library("aoti_plugins_kernels", "DEF") as library:
        library.define("whole(Tensor self) -> Tensor")
        library.define("either(Tensor self) -> Tensor")
        library.define("either.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)")
        yield


def test_executorch_is_asked_for_its_kernels(ops: None) -> None:
    mine, aten = torch.ops.aoti_plugins_kernels, torch.ops.aten
    assert not missing_kernel(aten._cdist_forward.default)
    assert not missing_kernel(aten.add.Tensor)
    assert not missing_kernel(aten._local_scalar_dense.default)
    assert not missing_kernel(torch.ops.higher_order.cond)
    assert "to_executorch() will fail" in missing_kernel(mine.whole.default)
    assert "no kernel aoti_plugins_kernels::either.out" in missing_kernel(mine.either.default)
