"""Notice the errors of C shims that a generated wrapper calls without looking at them.

Inductor checks what most calls return. Those of ``scatter``, ``scatter_reduce`` and ``index_put``
stand alone as a statement, so that an index out of range went unnoticed and the result was
returned as it was. Here every statement that is nothing but a call of a C shim is put into the
check that the others have. Tested with torch 2.13.
"""

from __future__ import annotations

import re

# C shims that return nothing, or whose errors the runtime itself keeps until the kernel is launched
# (``aoti_plugins/mps_shim.h``).
_NOT_CHECKED = re.compile(
    r"aoti_torch_(check|warn|print_tensor_handle|grad_mode_set_enabled|"
    r"mps_(start_encoding|set_arg|dispatch|run_command_block|memcpy|synchronize|malloc|free|"
    r"copy_buffer|create|delete|get)\w*)"
)
_STATEMENT = re.compile(r"^(\s*)(aoti_torch_\w+)(\(.*\));(\s*)$", re.MULTILINE)


def with_checked_calls(wrapper: str) -> str:
    """Put calls of C shims that stand alone into ``AOTI_TORCH_ERROR_CODE_CHECK``."""
    return _STATEMENT.sub(_checked, wrapper)


def _checked(call: re.Match[str]) -> str:
    indent, name, arguments, rest = call.groups()
    if _NOT_CHECKED.fullmatch(name):
        return call.group()
    return f"{indent}AOTI_TORCH_ERROR_CODE_CHECK({name}{arguments});{rest}"
