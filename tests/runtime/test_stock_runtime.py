"""ExecuTorch's own Python runtime knows our delegate, whenever ``register`` is called."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import needs_executorchs_extension

Lowered = Callable[[str], Path]

pytestmark = needs_executorchs_extension

REGISTER = "from aoti_plugins.runtime import register; register()"
IMPORT = "from executorch.runtime import Runtime"


@pytest.mark.parametrize("start", [(REGISTER, IMPORT), (IMPORT, REGISTER)], ids=["before", "after"])
def test_stock_runtime(lowered_programs: Lowered, start: tuple[str, str]) -> None:
    path = str(lowered_programs("mlp"))
    code = f"""
{"; ".join(start)}
import torch
from aoti_plugins.runtime import Program
runtime = Runtime.get()
assert "AotiCpuBackend" in runtime.backend_registry.registered_backend_names
x = torch.randn(4, 64)
program = runtime.load_program({path!r})
method = program.load_method("forward")
torch.testing.assert_close(method.execute([x])[0], Program({path!r})(x)[0], rtol=0, atol=0)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
