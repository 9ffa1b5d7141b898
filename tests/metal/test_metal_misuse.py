"""Misuse of Metal that the stand-in notices."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from metal_gpu import Gpu, misuse
from metal_objc import Objective
from support import ROOT

PAGE = 16384


Case = Callable[[Gpu], None]


def use_after_release(gpu: Gpu) -> None:
    buffer = gpu.send(gpu.device, "newBufferWithLength:options:", 16, 0)
    gpu.call(buffer, "release")
    gpu.send(buffer, "contents")


def over_release(gpu: Gpu) -> None:
    buffer = gpu.send(gpu.device, "newBufferWithLength:options:", 16, 0)
    gpu.call(buffer, "release")
    gpu.call(buffer, "release")


def released_buffer_is_bound(gpu: Gpu) -> None:
    encoder = gpu.encoder(gpu.commands())
    buffer = gpu.send(gpu.device, "newBufferWithLength:options:", 16, 0)
    gpu.call(buffer, "release")
    gpu.bind(encoder, buffer, 0)
    gpu.call(encoder, "endEncoding")


def two_encoders(gpu: Gpu) -> None:
    commands = gpu.commands()
    encoder = gpu.encoder(commands)
    assert gpu.encoder(commands) is None
    gpu.call(encoder, "endEncoding")


def encoder_after_its_end(gpu: Gpu) -> None:
    encoder = gpu.encoder(gpu.commands())
    gpu.call(encoder, "endEncoding")
    gpu.bind(encoder, gpu.buffer([0]), 0)


def encoder_without_end(gpu: Gpu) -> None:
    with gpu.objective.pool():
        gpu.encoder(gpu.commands())


def commit_twice(gpu: Gpu) -> None:
    commands = gpu.commands()
    gpu.call(commands, "commit")
    gpu.call(commands, "commit")


def commit_with_an_open_encoder(gpu: Gpu) -> None:
    commands = gpu.commands()
    encoder = gpu.encoder(commands)
    gpu.call(commands, "commit")
    gpu.call(encoder, "endEncoding")


def encode_after_commit(gpu: Gpu) -> None:
    commands = gpu.commands()
    gpu.call(commands, "commit")
    gpu.encoder(commands)


def wait_before_commit(gpu: Gpu) -> None:
    gpu.call(gpu.commands(), "waitUntilCompleted")


def in_encoder(pipeline: str | None, body: Callable[[Gpu, int], None]) -> Case:
    def case(gpu: Gpu) -> None:
        encoder = gpu.encoder(gpu.commands(), gpu.pipeline(pipeline) if pipeline else None)
        body(gpu, encoder)
        gpu.call(encoder, "endEncoding")

    return case


def bind_all(gpu: Gpu, encoder: int) -> None:
    gpu.bind(encoder, gpu.buffer([0] * 4), 0)
    gpu.bind(encoder, gpu.buffer([0] * 4), 1)
    gpu.bytes(encoder, bytes(4), 2)


def missing_binding(gpu: Gpu, encoder: int) -> None:
    gpu.bind(encoder, gpu.buffer([0]), 0)
    gpu.dispatch(encoder, [1], [1])


def binding_left_over(gpu: Gpu, encoder: int) -> None:
    bind_all(gpu, encoder)
    gpu.dispatch(encoder, [4], [4])
    gpu.bind(encoder, gpu.buffer([0] * 4), 0)
    gpu.dispatch(encoder, [4], [4])


def bytes_too_few(gpu: Gpu, encoder: int) -> None:
    bind_all(gpu, encoder)
    gpu.bytes(encoder, bytes(2), 2)
    gpu.dispatch(encoder, [4], [4])


def bound_and_dispatched(threads: list[int], group: list[int]) -> Callable[[Gpu, int], None]:
    def body(gpu: Gpu, encoder: int) -> None:
        bind_all(gpu, encoder)
        gpu.dispatch(encoder, threads, group)

    return body


def offset_not_aligned(gpu: Gpu, encoder: int) -> None:
    bind_all(gpu, encoder)
    gpu.bind(encoder, gpu.buffer([0] * 4), 1, offset=2)
    gpu.dispatch(encoder, [1], [1])


MISUSES: dict[str, tuple[Case, str]] = {
    "unknown selector": (
        lambda gpu: gpu.call(gpu.queue, "commandBufferWithDescriptor:"),
        "MTLCommandQueue does not respond to commandBufferWithDescriptor:",
    ),
    "unknown class": (lambda gpu: gpu.objective.named_class("MTLNothing") and None, "no class"),
    "object of another class": (
        lambda gpu: gpu.call(gpu.encoder(gpu.commands()), "setComputePipelineState:",
                             ctypes.c_void_p(gpu.queue)),
        "setComputePipelineState:: MTLCommandQueue is of the wrong class",
    ),
    "use after release": (use_after_release, "contents to a MTLBuffer after its last release"),
    "over-release": (over_release, "release to a MTLBuffer after its last release"),
    "released buffer": (released_buffer_is_bound, "a MTLBuffer after its last release"),
    "two encoders": (two_encoders, "while another encoder is open"),
    "encoder after its end": (encoder_after_its_end, "after endEncoding"),
    "encoder without end": (encoder_without_end, "released before endEncoding"),
    "commit twice": (commit_twice, "commit of a command buffer that is committed"),
    "commit while encoding": (commit_with_an_open_encoder, "commit while an encoder is open"),
    "encode after commit": (encode_after_commit, "of a command buffer that is committed"),
    "wait before commit": (wait_before_commit, "waitUntilCompleted before commit"),
    "missing binding": (in_encoder("add", missing_binding), "nothing is bound to buffer 1"),
    "binding left over": (in_encoder("add", binding_left_over), "buffer 1 is left over"),
    "bytes too few": (in_encoder("add", bytes_too_few), "has 2 bytes, the kernel reads 4"),
    "offset not aligned": (in_encoder("add", offset_not_aligned), "no multiple of 4"),
    "offset past the buffer": (
        in_encoder(None, lambda gpu, e: gpu.bind(e, gpu.buffer([0]), 0, offset=8)),
        "offset 8 of a buffer of 4 bytes",
    ),
    "index past the table": (
        in_encoder(None, lambda gpu, e: gpu.bind(e, gpu.buffer([0]), 31)),
        "index 31 of at most 30",
    ),
    "setBytes too long": (in_encoder(None, lambda gpu, e: gpu.bytes(e, bytes(4097), 0)), "4097"),
    "no pipeline": (in_encoder(None, bound_and_dispatched([1], [1])), "without a pipeline state"),
    "large threadgroup": (
        in_encoder("sum", bound_and_dispatched([65], [65])),
        "kernel sum: 65 threads per threadgroup, of at most 64",
    ),
    "grid of 0": (in_encoder("add", bound_and_dispatched([4, 0], [4])), "a grid of 4 x 0 x 1"),
    "group of 0": (
        in_encoder("add", bound_and_dispatched([4], [0])),
        "in threadgroups of 0 x 1 x 1",
    ),
    "threadgroup memory": (
        in_encoder("sum", lambda gpu, e: gpu.call(e, "setThreadgroupMemoryLength:atIndex:", 40, 0)),
        "multiples of 16",
    ),
    "buffer of 0 bytes": (
        lambda gpu: gpu.send(gpu.device, "newBufferWithLength:options:", 0, 0),
        "a buffer of 0 bytes",
    ),
    "private storage": (
        lambda gpu: gpu.own(gpu.send(gpu.device, "newBufferWithLength:options:", 16, 32)) and None,
        "buffers with options 0x20",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISUSES)
def test_misuse_is_noticed(metal: Objective, name: str) -> None:
    case, message = MISUSES[name]
    with metal.pool():
        gpu = Gpu(metal)
        case(gpu)
        assert message in misuse(gpu)
        metal.library.metal_stand_in_reset()


def test_autorelease_without_a_pool_is_misuse(metal: Objective) -> None:
    metal.string("leaks")
    assert b"autoreleased without a pool" in metal.library.metal_stand_in_last_error()


def test_a_write_behind_a_buffer_is_noticed_at_its_end(metal: Objective) -> None:
    with metal.pool():
        gpu = Gpu(metal)
        buffer = gpu.buffer([0] * 4)
        gpu.floats(buffer, 8)[4] = 1
        gpu.release_all()
        assert "behind the end of a buffer of 16 bytes" in misuse(gpu)


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
from metal_objc import Objective
from metal_gpu import Gpu
metal = Objective(Path({library!r}))
with metal.pool():
    gpu = Gpu(metal)
    {body}
print("went on")
"""


def run_apart(library: Path, body: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own: what it does may end it."""
    host = ROOT / "native" / "tests" / "metal_host"
    paths = [str(ROOT / "tests"), str(Path(__file__).parent), str(host)]
    return subprocess.run(
        [sys.executable, "-c", SCRIPT.format(paths=paths, library=str(library), body=body)],
        env={
            **os.environ,
            "AOTI_PLUGINS_METAL_COMPILER": f"{sys.executable} {host / 'compile.py'}",
            **environment,
        },
        capture_output=True,
        text=True,
    )


def test_misuse_aborts_unless_it_is_counted(stand_in_library: Path) -> None:
    done = run_apart(stand_in_library, 'gpu.call(gpu.queue, "nonsense")')
    assert done.returncode == -signal.SIGABRT
    assert "Metal stand-in: MTLCommandQueue does not respond to nonsense" in done.stderr


TOUCH = """
    a, b = gpu.buffer([1.0] * 4), gpu.buffer([0.0] * 4)
    commands = gpu.commands()
    gpu.encode_add(commands, b, a, 1)
    gpu.call(commands, "commit")
    {early}
    gpu.call(commands, "waitUntilCompleted")
    print(list(gpu.floats(b, 4)), list(gpu.floats(a, 4)))
"""


@pytest.mark.parametrize("early", ["gpu.floats(b, 4)[0]", "gpu.floats(a, 4)[0] = 9", ""])
def test_host_accesses_to_memory_in_use_are_noticed(stand_in_library: Path, early: str) -> None:
    body = TOUCH.strip().replace("{early}", early)
    done = run_apart(stand_in_library, body, AOTI_PLUGINS_METAL_PROTECT="1")
    if early:
        assert done.returncode == -signal.SIGSEGV
        assert "the host touches 0x" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("[2.0, 2.0, 2.0, 2.0] [1.0, 1.0, 1.0, 1.0]")


def test_released_memory_cannot_be_touched(stand_in_library: Path) -> None:
    body = 'a = gpu.buffer([1.0]); f = gpu.floats(a, 1); gpu.call(a, "release"); f[0]'
    assert run_apart(stand_in_library, body).returncode == -signal.SIGSEGV
