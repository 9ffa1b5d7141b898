"""The stand-in for Metal: what it computes, and when."""

from __future__ import annotations

import ctypes
import mmap
import re
from pathlib import Path

import pytest
from metal_gpu import TEXT, Gpu
from metal_objc import Objective, size

PAGE = 16384


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
