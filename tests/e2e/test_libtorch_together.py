"""A process that has libtorch too, in every order and visibility, runs both sides right."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

ORDERS = {
    "torch first": "import torch\n",
    "torch global": "import sys, os; sys.setdlopenflags(os.RTLD_GLOBAL | os.RTLD_NOW)\n"
    "import torch\nsys.setdlopenflags(os.RTLD_NOW)\n"
    "import ctypes, glob\n"
    "for f in glob.glob(os.path.dirname(torch.__file__) + '/lib/libtorch_cpu.so'):\n"
    "    ctypes.CDLL(f, mode=ctypes.RTLD_GLOBAL)\n",
    "torch later": "",
}

SCRIPT = """
import numpy, sys
from aoti_plugins.runtime import Program
{later_check}
method = Program(sys.argv[1]).method()
inputs = numpy.load(sys.argv[2])
before = numpy.asarray(method(inputs)[0])
import torch
after = numpy.asarray(method(inputs)[0])
again = numpy.asarray(Program(sys.argv[1])(inputs)[0])
assert (before == after).all() and (before == again).all()
model = torch._inductor.aoti_load_package(sys.argv[3])
theirs = model(torch.from_numpy(inputs)).numpy()
numpy.testing.assert_allclose(before, theirs, rtol=1e-4, atol=1e-5)
third = numpy.asarray(method(inputs)[0])
assert (before == third).all()
print("right")
"""


@pytest.fixture(scope="session")
def packaged_mlp(shared_dir: Path, example_models: dict) -> Path:
    """The MLP as an AOTInductor package, which needs libtorch."""
    import torch
    from filelock import FileLock

    path = shared_dir / "mlp.pt2"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            model, inputs = example_models["mlp"]()
            exported = torch.export.export(model, inputs)
            torch._inductor.aoti_compile_and_package(exported, package_path=str(path))
    return path


@pytest.mark.parametrize("order", ORDERS)
def test_both_sides_are_right(
    order: str,
    tmp_path: Path,
    run_python: Callable[..., str],
    lowered_programs: Callable[[str], Path],
    packaged_mlp: Path,
) -> None:
    import numpy as np

    np.save(tmp_path / "inputs.npy", np.random.default_rng(0).standard_normal((4, 64), np.float32))
    check = "assert 'torch' not in sys.modules" if order == "torch later" else ""
    printed = run_python(
        ORDERS[order] + SCRIPT.format(later_check=check),
        lowered_programs("mlp"),
        tmp_path / "inputs.npy",
        packaged_mlp,
        LD_DEBUG="bindings",
    )
    assert "right" in printed
    _check_bindings(printed)


def _check_bindings(printed: str) -> None:
    """The dynamic linker's own account of which library answered for which shim."""
    binding = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(\w+)'")
    bound = binding.findall(printed)
    ours = [(user, owner) for user, owner, symbol in bound if symbol.startswith("aotip_aoti_")]
    assert len(ours) > 10
    assert {Path(owner).name for _, owner in ours} == {"libexecutorch_backend_aoti.so"}
    theirs = [(user, owner) for user, owner, symbol in bound if symbol.startswith("aoti_torch_")]
    assert theirs
    assert not [owner for _, owner in theirs if "aoti_plugins" in owner or "backend_aoti" in owner]
