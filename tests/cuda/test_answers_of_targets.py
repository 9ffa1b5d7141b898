"""What PyTorch and Triton remember about one GPU is unknown when the next one is lowered for."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support import cache_without_blobs

# Two GPUs that differ in everything that is asked about.
TARGETS = ("a100", "h100")

# Generates code for a GPU; prints all that functions remember in the block of patches, by function
# and arguments, and the functions that still remember something behind it.
_REMEMBERED = r"""
import contextlib, functools, gc, json, re, sys
import torch
from aoti_plugins.compile_specs import LoweringOptions
from aoti_plugins.cuda import lowering
from aoti_plugins.cuda.device import INDUCTOR_OPTIONS
from aoti_plugins.cuda.target import as_target, target_by_name
from aoti_plugins.lowering.inductor.generate import generate

LINK = "_lru_list_elem"
ASKED = ("torch._dynamo.device_interface", "torch._inductor", "torch.cuda", "torch.utils", "triton")

class Program(torch.nn.Module):
    def forward(self, x, image, weight):
        return (x @ x.t()).softmax(-1), torch.conv2d(image, weight), x.cumsum(0)

def remembered():
    found = {}
    for one in gc.get_objects():
        if isinstance(one, functools._lru_cache_wrapper):
            function = one.__wrapped__
            if function.__module__.startswith(ASKED) and one.cache_info().currsize:
                found[f"{function.__module__}.{function.__qualname__}"] = comparable(one)
    return found

def entries(one):
    # Without a limit there is a dict of results; with one, keys and results are strung together.
    parts = gc.get_referents(one)
    for index, part in enumerate(parts):
        if type(part) is dict and part is not one.__dict__:
            yield from ((k, v) for k, v in part.items() if type(v).__name__ != LINK)
        if getattr(part, "__name__", "") == LINK:
            yield parts[index - 2], parts[index - 1]

def comparable(one):
    found = {repr(asked): repr(answer) for asked, answer in entries(one)}
    return {k: v for k, v in found.items() if not re.search("(0x|memory:)[0-9a-f]", k + v)}

@contextlib.contextmanager
def watched(target):
    with lowering.environment(target, LoweringOptions()):
        yield
        inside.update(remembered())

inside = {}
target = as_target(target_by_name(sys.argv[1]))
inputs = [torch.ones(64, 64), torch.ones(1, 4, 8, 8), torch.ones(4, 4, 3, 3)]
exported = torch.export.export(Program(), tuple(inputs))
options = {**INDUCTOR_OPTIONS, "max_autotune": True}
code = generate(exported.module(check_guards=False), inputs, options, watched(target), "cuda:0")
assert code.gpu_kernels
gc.collect()  # what objects of the graph remember goes with them
print(json.dumps([inside, sorted(remembered())]))
"""

Remembered = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Remembered, set[str]]]:
    """For each GPU, in a process of its own: answers in the block, and functions behind it."""
    folder = tmp_path_factory.mktemp("answers")
    environment = {
        **os.environ,
        "AOTI_PLUGINS_CACHE_DIR": cache_without_blobs(folder / "compiled"),
        "PYTHONHASHSEED": "0",
    }
    running = {
        name: subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", _REMEMBERED, name],
            env={**environment, "TORCHINDUCTOR_CACHE_DIR": str(folder / name)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in TARGETS
    }
    found = {}
    for name, process in running.items():
        output, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors[-4000:]
        inside, behind = json.loads(output.splitlines()[-1])
        found[name] = inside, set(behind)
    return found


def test_a_second_target_never_gets_the_first_ones_answers(
    answers: dict[str, tuple[Remembered, set[str]]],
) -> None:
    (one, behind_one), (other, behind_other) = (answers[name] for name in TARGETS)
    of_the_gpu = {
        name
        for name in one.keys() & other.keys()
        if any(other[name].get(asked, answer) != answer for asked, answer in one[name].items())
    }
    # Without these two nothing would be compared: one is in PyTorch, one in Triton.
    assert "torch._inductor.runtime.hints.DeviceProperties.create" in of_the_gpu
    assert "triton.compiler.compiler.max_shared_mem" in of_the_gpu
    assert of_the_gpu & (behind_one | behind_other) == set()
