"""A device of the stand-in for Metal, as its tests use it."""

from __future__ import annotations

import ctypes
from typing import Any

from metal_objc import Objective, size

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


def misuse(gpu: Gpu) -> str:
    """The one misuse so far."""
    assert gpu.objective.library.metal_stand_in_errors() == 1
    return gpu.objective.library.metal_stand_in_last_error().decode()
