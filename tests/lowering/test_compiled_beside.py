"""Triton kernels that are compiled beside each other, and beside what Inductor still writes."""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cuda.target import TARGETS
from aoti_plugins.lowering.inductor.generate import generate

pytest.importorskip("triton")

from aoti_plugins.cuda import lowering
from aoti_plugins.cuda.device import INDUCTOR_OPTIONS
from aoti_plugins.cuda.inductor.compiled_beside import (
    CompiledBeside,
    begun_when_defined,
    one_parser,
)

H100 = next(target for target in TARGETS if target.name == "h100")
SOURCE = "def function(a, b):\n" + "".join(
    f"    x{i} = (a + b * {i}) % ({i} + 1)\n" for i in range(100)
)


class Garbage:
    """Lets another thread run while it is collected."""

    def __init__(self) -> None:
        self.own = self

    def __del__(self) -> None:
        time.sleep(0)


def _parse_often(errors: list[Exception]) -> None:
    for _ in range(200):
        for _ in range(3):
            Garbage()
        try:
            ast.parse(SOURCE)
        except Exception as error:
            errors.append(error)


def test_threads_that_parse_do_not_disturb_each_other() -> None:
    original, errors = ast.parse, list[Exception]()
    with one_parser():
        threads = [threading.Thread(target=_parse_often, args=(errors,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not errors
    assert ast.parse is original


class Rows(nn.Module):
    """Several kernels: two norms, and what is between them."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.softmax(x, 0) @ x.t(), -1)


def test_kernels_are_begun_before_all_code_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    steps: list[str] = []

    def noted(owner: Any, name: str, step: Callable[..., str]) -> None:
        original = getattr(owner, name)

        def called(*args: Any) -> Any:
            steps.append(step(*args))
            return original(*args)

        monkeypatch.setattr(owner, name, called)

    noted(CompiledBeside, "begin", lambda self, tuner, compiled: tuner.fn.__name__)
    noted(CompiledBeside, "wait", lambda self, tuner: f"wait for {tuner.fn.__name__}")
    noted(PythonWrapperCodegen, "generate_and_run_autotune_block", lambda self: "call")
    program = torch.export.export(Rows(), (torch.randn(48, 80),))
    fakes = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]
    environment = lowering.environment(H100, LoweringOptions())
    code = generate(program.module(), fakes, INDUCTOR_OPTIONS, environment, "cuda:0")
    begun = steps[: steps.index("call")]
    assert len(begun) == len(set(begun)) >= 2
    assert sorted(begun) == sorted(kernel.name for kernel in code.gpu_kernels)
    assert sorted(set(steps[len(begun) + 1 :])) == sorted(f"wait for {name}" for name in begun)


def test_of_blocks_inside_each_other_the_innermost_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.codecache import PyCodeCache
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    def defined(self: Any, kernel_name: str, kernel_body: str) -> None:
        """In place of what writes the kernel into code."""

    monkeypatch.setattr(PythonWrapperCodegen, "define_kernel", defined)
    monkeypatch.setattr(PyCodeCache, "load", lambda source_code: SimpleNamespace(kernel="tuner"))
    outer: list[str] = []
    inner: list[str] = []

    def define() -> None:
        code: Any = None
        PythonWrapperCodegen.define_kernel(code, "kernel", _BODY)

    with begun_when_defined(outer.append):
        with begun_when_defined(inner.append):
            define()
        assert (outer, inner) == ([], ["tuner"])
        define()
    assert (outer, inner) == (["tuner"], ["tuner"])


_BODY = "async_compile.triton('kernel', 'source', device_str='cuda')"
