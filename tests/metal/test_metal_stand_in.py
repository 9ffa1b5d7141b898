"""The stand-in for Metal: what it computes, when, and which misuse it notices."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from metal_objc import Objective, size
from support import ROOT

PAGE = 16384
TEXT = """
kernel void add(device float* out [[buffer(0)]], constant float* in [[buffer(1)]],
                constant float& step [[buffer(2)]], uint i [[thread_position_in_grid]]) {
  out[i] = in[i] + step;
}
[[max_total_threads_per_threadgroup(64)]]
kernel void sum(device float* out, threadgroup float* all [[threadgroup(0)]],
                uint i [[thread_index_in_threadgroup]], uint n [[threads_per_threadgroup]]) {
  all[i] = out[i];
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  float total = 0;
  for (uint k = 0; k < n; ++k) {
    total += all[k];
  }
  out[i] = total;
}
kernel void behind(device float* out) { out[5] = 1; }
kernel void stuck(device float* out, uint i [[thread_index_in_threadgroup]]) {
  if (i != 0) metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
}
"""


class Gpu:
    """A device with a queue and the pipelines of a library."""

    def __init__(self, objective: Objective) -> None:
        self.objective = objective
        self.device = objective.device()
        self.owned: list[int] = []
        error = ctypes.c_void_p()
        self.library = self.own(
            self.send(
                self.device,
                "newLibraryWithSource:options:error:",
                ctypes.c_void_p(objective.string(TEXT)),
                ctypes.c_void_p(None),
                ctypes.pointer(error),
            )
        )
        self.queue = self.own(self.send(self.device, "newCommandQueue"))

    def send(
        self, target: Any, selector: str, *arguments: Any, result: Any = ctypes.c_void_p
    ) -> Any:
        return self.objective.send(target, selector, *arguments, result=result)

    def own(self, thing: int) -> int:
        self.owned.append(thing)
        return thing

    def function(self, name: str) -> int | None:
        string = ctypes.c_void_p(self.objective.string(name))
        return self.send(self.library, "newFunctionWithName:", string)

    def pipeline(self, name: str) -> int:
        function = self.own(self.function(name) or 0)
        error = ctypes.c_void_p()
        selector = "newComputePipelineStateWithFunction:error:"
        made = self.send(self.device, selector, ctypes.c_void_p(function), ctypes.pointer(error))
        assert made is not None, self.objective.description(error.value or 0)
        return self.own(made)

    def buffer(self, values: list[float]) -> int:
        made = self.send(self.device, "newBufferWithLength:options:", 4 * len(values), 0)
        self.floats(made, len(values))[:] = values
        return self.own(made)

    def floats(self, buffer: int, count: int) -> Any:
        return (ctypes.c_float * count).from_address(self.send(buffer, "contents"))

    def commands(self) -> int:
        return self.send(self.queue, "commandBuffer")

    def encoder(self, commands: int, pipeline: int | None = None) -> int:
        encoder = self.send(commands, "computeCommandEncoder")
        if pipeline is not None:
            self.call(encoder, "setComputePipelineState:", ctypes.c_void_p(pipeline))
        return encoder

    def call(self, target: int, selector: str, *arguments: Any) -> None:
        self.send(target, selector, *arguments, result=None)

    def bind(self, encoder: int, buffer: int, index: int, offset: int = 0) -> None:
        self.call(encoder, "setBuffer:offset:atIndex:", ctypes.c_void_p(buffer), offset, index)

    def bytes(self, encoder: int, value: bytes, index: int) -> None:
        kept = ctypes.create_string_buffer(value, len(value))
        address = ctypes.c_void_p(ctypes.addressof(kept))
        self.call(encoder, "setBytes:length:atIndex:", address, len(value), index)

    def dispatch(self, encoder: int, threads: list[int], group: list[int]) -> None:
        selector = "dispatchThreads:threadsPerThreadgroup:"
        self.call(encoder, selector, size(threads), size(group))

    def encode_add(self, commands: int, out: int, source: int, step: float, count: int = 4) -> None:
        encoder = self.encoder(commands, self.pipeline("add"))
        self.bind(encoder, out, 0)
        self.bind(encoder, source, 1)
        self.bytes(encoder, bytes(ctypes.c_float(step)), 2)
        self.dispatch(encoder, [count], [2])
        self.call(encoder, "endEncoding")

    def finish(self, commands: int) -> str | None:
        """Commit and wait; the description of the error, if there is one."""
        self.call(commands, "commit")
        self.call(commands, "waitUntilCompleted")
        error = self.send(commands, "error")
        return None if error is None else self.objective.description(error)

    def release_all(self) -> None:
        for thing in self.owned:
            self.call(thing, "release")


@pytest.fixture
def gpu(metal: Objective) -> Iterator[Gpu]:
    with metal.pool():
        gpu = Gpu(metal)
        yield gpu
        gpu.release_all()


@pytest.fixture
def clean(metal: Objective, gpu: Gpu) -> Iterator[None]:
    """No misuse happened in the test."""
    yield
    assert metal.library.metal_stand_in_last_error() == b""


def misuse(gpu: Gpu) -> str:
    """The one misuse so far."""
    assert gpu.objective.library.metal_stand_in_errors() == 1
    return gpu.objective.library.metal_stand_in_last_error().decode()


@pytest.mark.usefixtures("clean")
def test_work_runs_when_it_is_waited_for_and_in_order(gpu: Gpu) -> None:
    a, b, c = gpu.buffer([1, 2, 3, 4]), gpu.buffer([0] * 4), gpu.buffer([0] * 4)
    first, second = gpu.commands(), gpu.commands()
    gpu.encode_add(first, b, a, 10)
    gpu.encode_add(second, c, b, 100)
    gpu.call(first, "commit")
    gpu.call(second, "commit")
    assert list(gpu.floats(b, 4)) == [0] * 4
    assert gpu.send(first, "status", result=ctypes.c_ulong) == 2
    gpu.call(second, "waitUntilCompleted")
    assert list(gpu.floats(b, 4)) == [11, 12, 13, 14]
    assert list(gpu.floats(c, 4)) == [111, 112, 113, 114]
    assert gpu.send(first, "status", result=ctypes.c_ulong) == 4
    assert gpu.objective.library.metal_stand_in_dispatches() == 2
    assert gpu.objective.library.metal_stand_in_commits() == 2


@pytest.mark.usefixtures("clean")
def test_polling_the_status_ends(gpu: Gpu) -> None:
    a, b = gpu.buffer([1, 2, 3, 4]), gpu.buffer([0] * 4)
    commands = gpu.commands()
    gpu.encode_add(commands, b, a, 1)
    gpu.call(commands, "commit")
    polls = [gpu.send(commands, "status", result=ctypes.c_ulong) for _ in range(5)]
    assert polls[0] == 2
    assert polls[-1] == 4


@pytest.mark.usefixtures("clean")
def test_buffers_live_as_long_as_work_uses_them(gpu: Gpu) -> None:
    b = gpu.buffer([0] * 4)
    a = gpu.send(gpu.device, "newBufferWithLength:options:", 16, 0)
    gpu.floats(a, 4)[:] = [5, 6, 7, 8]
    commands = gpu.commands()
    gpu.encode_add(commands, b, a, 1)
    gpu.call(a, "release")
    assert gpu.finish(commands) is None
    assert list(gpu.floats(b, 4)) == [6, 7, 8, 9]


@pytest.mark.usefixtures("clean")
def test_threadgroup_memory_and_threadgroups(gpu: Gpu) -> None:
    a = gpu.buffer([1.0] * 64)
    commands = gpu.commands()
    encoder = gpu.encoder(commands, gpu.pipeline("sum"))
    gpu.bind(encoder, a, 0)
    gpu.call(encoder, "setThreadgroupMemoryLength:atIndex:", 256, 0)
    selector = "dispatchThreadgroups:threadsPerThreadgroup:"
    gpu.call(encoder, selector, size([1]), size([64]))
    gpu.call(encoder, "endEncoding")
    assert gpu.finish(commands) is None
    assert list(gpu.floats(a, 64)) == [64.0] * 64


def test_nothing_leaks(metal: Objective) -> None:
    with metal.pool():
        gpu = Gpu(metal)
        a, b = gpu.buffer([1] * 4), gpu.buffer([0] * 4)
        commands = gpu.commands()
        gpu.encode_add(commands, b, a, 1)
        assert gpu.finish(commands) is None
        assert metal.library.metal_stand_in_live_of(b"MTLBuffer") == 2
        assert metal.library.metal_stand_in_allocated_nbytes() == 32
        gpu.release_all()
    assert metal.library.metal_stand_in_live_objects() == 0
    assert metal.library.metal_stand_in_allocated_nbytes() == 0


def test_errors_of_kernels_come_with_the_command_buffer(gpu: Gpu) -> None:
    for name, threads, message in (
        ("stuck", 3, "kernel stuck, .*divergent barrier"),
        (
            "behind",
            1,
            "kernel behind, .*at offset 20 of buffer 0, which has 16 bytes",
        ),
    ):
        commands = gpu.commands()
        encoder = gpu.encoder(commands, gpu.pipeline(name))
        gpu.bind(encoder, gpu.buffer([0] * 4), 0)
        gpu.dispatch(encoder, [threads], [threads])
        gpu.call(encoder, "endEncoding")
        error = gpu.finish(commands)
        assert error is not None
        assert re.search(message, error), error
        assert gpu.send(commands, "status", result=ctypes.c_ulong) == 5


def test_text_that_does_not_compile(gpu: Gpu) -> None:
    error = ctypes.c_void_p()
    text = ctypes.c_void_p(gpu.objective.string("kernel void f(device float* x) { y; }"))
    selector = "newLibraryWithSource:options:error:"
    options = ctypes.c_void_p(None)
    assert gpu.send(gpu.device, selector, text, options, ctypes.pointer(error)) is None
    assert "use of undeclared identifier 'y'" in gpu.objective.description(error.value or 0)
    assert gpu.function("no_such_kernel") is None


@pytest.mark.usefixtures("clean")
def test_host_memory_is_wrapped_in_whole_pages_only(gpu: Gpu) -> None:
    memory = mmap.mmap(-1, 4 * PAGE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = (base + PAGE - 1) // PAGE * PAGE
    selector = "newBufferWithBytesNoCopy:length:options:deallocator:"

    def wrap(address: int, nbytes: int) -> int | None:
        nothing = ctypes.c_void_p(None)
        return gpu.send(gpu.device, selector, ctypes.c_void_p(address), nbytes, 0, nothing)

    assert wrap(start + 64, PAGE) is None
    assert wrap(start, PAGE - 64) is None
    wrapped = gpu.own(wrap(start, PAGE) or 0)
    assert gpu.send(wrapped, "contents") == start
    gpu.floats(wrapped, 4)[:] = [1, 2, 3, 4]
    b = gpu.buffer([0] * 4)
    commands = gpu.commands()
    gpu.encode_add(commands, b, wrapped, 1)
    assert gpu.finish(commands) is None
    assert list(gpu.floats(b, 4)) == [2, 3, 4, 5]
    assert gpu.objective.library.metal_stand_in_wrapped() == 1


def test_faults_are_injected(gpu: Gpu) -> None:
    library = gpu.objective.library
    library.metal_stand_in_fail_buffer(2)
    sizes = [
        gpu.send(gpu.device, "newBufferWithLength:options:", 16, 0) is not None for _ in range(3)
    ]
    assert sizes == [True, False, True]
    library.metal_stand_in_limit_memory(1 << 20)
    assert gpu.send(gpu.device, "newBufferWithLength:options:", 1 << 20, 0) is None
    library.metal_stand_in_limit_memory(0)

    error = ctypes.c_void_p()
    library.metal_stand_in_fail_library(1)
    text, options = ctypes.c_void_p(gpu.objective.string(TEXT)), ctypes.c_void_p(None)
    selector = "newLibraryWithSource:options:error:"
    assert gpu.send(gpu.device, selector, text, options, ctypes.pointer(error)) is None
    assert "injected fault" in gpu.objective.description(error.value or 0)

    library.metal_stand_in_fail_pipeline(1)
    with pytest.raises(AssertionError, match="injected fault"):
        gpu.pipeline("add")

    library.metal_stand_in_fail_command_buffer(1)
    assert "injected fault" in (gpu.finish(gpu.commands()) or "")
    library.metal_stand_in_limit_threads(32)
    limited = gpu.send(gpu.pipeline("add"), "maxTotalThreadsPerThreadgroup", result=ctypes.c_ulong)
    assert limited == 32


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
from test_metal_stand_in import Gpu
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


@pytest.mark.usefixtures("clean")
def test_archives(gpu: Gpu, tmp_path: Path) -> None:
    def named(name: str) -> int:
        return gpu.objective.named_class(name)

    def pointer(thing: int | None) -> ctypes.c_void_p:
        return ctypes.c_void_p(thing)

    error = ctypes.pointer(ctypes.c_void_p())
    path = tmp_path / "kernels.archive"
    url = gpu.send(named("NSURL"), "fileURLWithPath:", pointer(gpu.objective.string(str(path))))
    description = gpu.own(gpu.send(named("MTLBinaryArchiveDescriptor"), "new"))
    make = "newBinaryArchiveWithDescriptor:error:"
    archive = gpu.own(gpu.send(gpu.device, make, pointer(description), error))
    descriptor = gpu.own(gpu.send(named("MTLComputePipelineDescriptor"), "new"))
    function = gpu.own(gpu.function("add") or 0)
    gpu.call(descriptor, "setComputeFunction:", pointer(function))
    archives = gpu.send(named("NSArray"), "arrayWithObject:", pointer(archive))
    gpu.call(descriptor, "setBinaryArchives:", pointer(archives))
    add = "addComputePipelineFunctionsWithDescriptor:error:"
    assert gpu.send(archive, add, pointer(descriptor), error, result=ctypes.c_bool)
    selector = "newComputePipelineStateWithDescriptor:options:reflection:error:"
    nothing = ctypes.c_void_p(None)
    assert gpu.own(gpu.send(gpu.device, selector, pointer(descriptor), 0, nothing, error))
    gpu.call(description, "setUrl:", pointer(url))
    assert gpu.send(gpu.device, make, pointer(description), error) is None
    assert gpu.send(archive, "serializeToURL:error:", pointer(url), error, result=ctypes.c_bool)
    assert path.exists()
    assert gpu.own(gpu.send(gpu.device, make, pointer(description), error))
