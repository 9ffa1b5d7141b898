"""Run Inductor's autotuning code without data.

Ahead of time, Inductor writes a Python block that makes example tensors and calls every kernel,
so that each is compiled and its best configuration is found. Without a GPU the tensors are fake;
what the calls measure is answered by ``config_choice``. Tested with torch 2.11 and 2.13.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from torch._subclasses.fake_tensor import FakeTensorMode


@contextlib.contextmanager
def autotune_block_on_fakes() -> Iterator[None]:
    """Run the autotuning block on fake tensors."""
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    original = PythonWrapperCodegen.generate_and_run_autotune_block

    def run(self: Any) -> Any:
        with FakeTensorMode(allow_non_fake_inputs=True):
            return original(self)

    with mock.patch.object(PythonWrapperCodegen, "generate_and_run_autotune_block", run):
        yield
