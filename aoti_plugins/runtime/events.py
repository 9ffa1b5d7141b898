"""What took time in a call."""

from __future__ import annotations

from dataclasses import dataclass

from aoti_plugins.runtime._runner import Event


@dataclass(frozen=True)
class CallEvent:
    """Something that took time in a call.

    Attributes:
        name: of a delegate's kernel as the program's payload has it, for instance
            ``"cpp_fused_relu_0:3"``; else ExecuTorch's own, as ``"DELEGATE_CALL"``.
        is_kernel: whether it is a delegate's kernel.
        instruction: index of the method's instruction that it belongs to; -1 for none.
        begin_ns: of a steady clock, nanoseconds.
        end_ns: likewise; what did not end, as it failed, has 0.
    """

    name: str
    is_kernel: bool
    instruction: int
    begin_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return max(self.end_ns - self.begin_ns, 0) * 1e-9


def call_event(event: Event) -> CallEvent:
    """Describe an ``aotip_event``."""
    name = event.name.decode(errors="replace") if event.name else ""
    is_kernel = bool(event.in_delegate)
    return CallEvent(name, is_kernel, event.instruction, event.begin_ns, event.end_ns)
