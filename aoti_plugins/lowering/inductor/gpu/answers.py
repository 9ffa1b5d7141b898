"""Drop what PyTorch and Triton remember about a GPU, so that no target gets another one's answers.

Both keep answers of functions (``functools.cache``) that ask about the device: its properties, its
shared memory, which instructions it has, a digest that names it. Which functions these are changes
with every version; the modules that they are in hardly do. So every answer of a function in these
modules is dropped. What a function is called once for is no answer and stays: those return nothing,
or are named here.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TypeAlias

from aoti_plugins.lowering.inductor.patching import patch

# Modules and classes, with all that is below, that describe devices, choose by them, or name them
# in keys of caches.
_DESCRIBING = (
    "torch._dynamo.device_interface",
    "torch._inductor.choices",
    "torch._inductor.codecache.CacheBase",
    "torch._inductor.codegen.cuda.cuda_env",
    "torch._inductor.heuristics",
    "torch._inductor.kernel",
    "torch._inductor.runtime.caching",
    "torch._inductor.runtime.hints",
    "torch._inductor.runtime.runtime_utils",
    "torch._inductor.template_heuristics",
    "torch._inductor.utils",
    "torch.utils._triton",
    "triton.compiler.compiler",
)
# Makes something that there may be once only.
_KEPT = ("torch._inductor.kernel.mm.lazy_register_extern_choice",)

_Cached: TypeAlias = "functools._lru_cache_wrapper[Any]"


@patch(
    why="One target would get answers that were remembered for another.",
    until="aot_compile takes a target",
)
def fresh_answers() -> Iterator[None]:
    """Answers from before the block are unknown in it, and those from it are unknown behind it."""
    forget_answers()
    try:
        yield
    finally:
        forget_answers()


def forget_answers() -> None:
    """Drop every answer about a device."""
    for answered in _answers(len(sys.modules)):
        answered.cache_clear()


@functools.lru_cache(maxsize=1)
def _answers(modules: int) -> tuple[_Cached, ...]:
    """All functions whose answers are dropped, as of a number of imported modules."""
    del modules
    found = (
        function
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType)
        and any(_is_in(name, one) or _is_in(one, name) for one in _DESCRIBING)
        for function in _remembering(module)
        if _is_answer(function)
    )
    return tuple(dict.fromkeys(found))


def _is_in(name: str, whole: str) -> bool:
    return name == whole or name.startswith(f"{whole}.")


def _is_answer(function: _Cached) -> bool:
    original = function.__wrapped__
    name = f"{original.__module__}.{original.__qualname__}"
    has_effect = original.__annotations__.get("return", "") in (None, "None") or name in _KEPT
    return not has_effect and any(_is_in(name, one) for one in _DESCRIBING)


def _remembering(module: ModuleType) -> Iterator[_Cached]:
    """Functions and methods that remember, in a module and its classes."""
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    for owner in (module, *classes):
        for member in list(vars(owner).values()):
            wraps = isinstance(member, staticmethod | classmethod)
            function = member.__func__ if wraps else member
            if isinstance(function, functools._lru_cache_wrapper):
                yield function
