"""Compiled for real GPUs, without one: shared memory within the limit, hardly any spills."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
import torch
from elftools.elf.elffile import ELFFile

from aoti_plugins.cuda.attention import launch
from aoti_plugins.cuda.attention.config import choose, shared_nbytes
from aoti_plugins.cuda.attention.target import AttentionTarget, attention_target

triton = pytest.importorskip("triton")

GPUS = {
    "80": AttentionTarget((8, 0), 108, 166912),
    "89": AttentionTarget((8, 9), 58, 101376),
    "90": AttentionTarget((9, 0), 132, 232448),
    "100": AttentionTarget((10, 0), 148, 232448),
    "120": AttentionTarget((12, 0), 170, 101376),
}
# Bytes of a thread's stack: a few registers that do not fit are tolerable, arrays are not.
MOST_STACK_NBYTES = 256
_POINTERS = {
    torch.float16: "*fp16",
    torch.bfloat16: "*bf16",
    torch.float32: "*fp32",
    torch.bool: "*i1",
    torch.uint8: "*u8",
}


def problem(
    heads: int,
    kv_heads: int,
    q_len: int,
    head_dim: int,
    dtype: torch.dtype = torch.bfloat16,
    mask: torch.dtype | None = None,
    causal: bool = False,
) -> launch.Call:
    """An attention of a batch of 4 and 4096 keys; its tensors have no memory."""
    with torch.device("meta"):
        query = torch.empty(4, q_len, heads, head_dim, dtype=dtype).transpose(1, 2)
        key = torch.empty(4, 4096, kv_heads, head_dim, dtype=dtype).transpose(1, 2)
        allowed = torch.empty(4, 1, q_len, 4096, dtype=mask) if mask is not None else None
    return launch.Call(query, key, key, allowed, causal, head_dim**-0.5)


PROBLEMS = {
    "prefill_64": lambda: problem(16, 16, 4096, 64, causal=True),
    "prefill_128": lambda: problem(16, 16, 4096, 128, causal=True),
    "prefill_256": lambda: problem(16, 16, 4096, 256),
    "prefill_80": lambda: problem(16, 16, 4096, 80),
    "prefill_float32": lambda: problem(16, 16, 4096, 64, dtype=torch.float32),
    "decode": lambda: problem(8, 8, 1, 128),
    "decode_grouped": lambda: problem(32, 8, 1, 128, mask=torch.bool),
}
MASKED = {
    f"masked_{dim}": lambda dim=dim: problem(16, 16, 4096, dim, mask=torch.bool)
    for dim in (64, 128, 256)
} | {
    "added_128": lambda: problem(16, 16, 4096, 128, mask=torch.bfloat16),
    "masked_float32": lambda: problem(16, 16, 4096, 128, dtype=torch.float32, mask=torch.bool),
}
CASES = [
    *(("90", name) for name in PROBLEMS),
    *((gpu, name) for gpu in ("80", "89", "100", "120") for name in ("prefill_128", "prefill_256")),
    *((gpu, "decode_grouped") for gpu in ("80", "120")),
    *((gpu, name) for gpu in GPUS for name in MASKED),
]
PROBLEMS |= MASKED


@pytest.mark.parametrize(("gpu", "name"), CASES)
def test_fits_the_gpu(gpu: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target, call = GPUS[gpu], PROBLEMS[name]()
    bound = shared_nbytes(choose(call.problem(), target), call.problem(), target)
    with attention_target(target):
        launches = recorded(call, monkeypatch)
    for kernel, arguments in launches:
        compiled = compile_for(int(gpu), kernel, arguments)
        assert compiled.metadata.shared <= target.shared_memory
        assert compiled.metadata.shared <= bound
        assert stack_nbytes(compiled.asm["cubin"]) <= MOST_STACK_NBYTES


def test_float32_is_not_rounded_to_tf32(monkeypatch: pytest.MonkeyPatch) -> None:
    call = problem(8, 2, 1, 64, dtype=torch.float32)
    for kernel, arguments in recorded(call, monkeypatch):
        assert "tf32" not in compile_for(80, kernel, arguments).asm["ptx"]


def recorded(
    call: launch.Call, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[Any, dict[str, Any]]]:
    """The kernels that compute an attention, with their arguments."""
    launches = []

    class Recorder:
        def __init__(self, kernel: Any) -> None:
            self._kernel = kernel

        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            assert all(size > 0 for size in grid)
            return self._launch

        def _launch(self, *args: Any, **kwargs: Any) -> None:
            named = dict(zip(self._kernel.arg_names, args, strict=False))
            launches.append((self._kernel, {**named, **kwargs}))

    monkeypatch.setattr(launch, "wrapped", Recorder)
    launch.run(call, launch.output_like(call, [0, 2, 1, 3]))
    return launches


def compile_for(capability: int, kernel: Any, arguments: dict[str, Any]) -> Any:
    """Compile as Triton does for a launch: a stride of 1 and multiples of 16 are known."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = {"num_warps", "num_stages"} & arguments.keys()
    options = {"enable_fp_fusion": True, **{name: arguments.pop(name) for name in names}}
    constant = {p.name for p in kernel.params if p.is_constexpr}
    constant |= {name for name, value in arguments.items() if isinstance(value, int) and value == 1}
    signature, attributes = {}, {}
    for index, name in enumerate(kernel.arg_names):
        value = arguments[name]
        if name in constant:
            signature[name] = "constexpr"
            continue
        is_tensor = isinstance(value, torch.Tensor)
        signature[name] = _POINTERS[value.dtype] if is_tensor else "i32"
        if is_tensor or value % 16 == 0:
            attributes[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={(kernel.arg_names.index(name),): arguments[name] for name in constant},
        attrs=attributes,
    )
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def stack_nbytes(cubin: bytes) -> int:
    """Local memory of a thread: spilled registers and arrays (attribute EIATTR_FRAME_SIZE)."""
    section = ELFFile(io.BytesIO(cubin)).get_section_by_name(".nv.info")
    data, at, largest = section.data(), 0, 0
    while at < len(data):
        form, attribute, size = struct.unpack_from("<BBH", data, at)
        if attribute == 0x11 and form == 4:
            largest = max(largest, struct.unpack_from("<II", data, at + 4)[1])
        at += 4 + (size if form == 4 else 0)
    return largest
