"""What a loaded program says about how one of its methods is called."""

from __future__ import annotations

from dataclasses import dataclass, field

from aoti_plugins.errors import ProgramError
from aoti_plugins.interface.contents import Interface, decode
from aoti_plugins.interface.structure import Node, parse
from aoti_plugins.runtime._runner import Runner, Text


@dataclass(frozen=True)
class CallStructure:
    """The texts of one method; the structures are parsed when they are asked for.

    Attributes:
        what: the method, for messages.
        interface: names and bounds; empty for a program that does not say them.
        takes_text: the structure of the arguments as ExecuTorch has it; may be empty.
        gives_text: that of the results.
    """

    what: str
    interface: Interface = field(default_factory=Interface)
    takes_text: str = ""
    gives_text: str = ""

    @classmethod
    def read(cls, native: Runner, program: int, method: str, name: str) -> CallStructure:
        """Read it from a loaded program.

        Raises:
            ProgramError: it is damaged.
        """
        what = f"method {method!r} of the {name}"
        takes, gives, interface = (native.method_text(program, method, one) for one in Text)
        try:
            known = decode(interface) if interface else None
            return cls(what, known or Interface(), takes.decode(), gives.decode())
        except (ProgramError, UnicodeDecodeError) as error:
            raise ProgramError(f"{what}: {error}") from error

    def takes(self) -> Node:
        """The structure of the arguments.

        Raises:
            ProgramError: the program does not say it, or it is damaged.
        """
        return self._parsed(self.takes_text, "arguments")

    def gives(self) -> Node:
        """The structure of the results; raises as ``takes``."""
        return self._parsed(self.gives_text, "results")

    def _parsed(self, text: str, side: str) -> Node:
        if not text:
            raise ProgramError(
                f"the program does not say the structure of the {side} of {self.what}: call the "
                "method itself, with plain inputs"
            )
        return parse(text, f"the structure of the {side} of {self.what}")

    def __str__(self) -> str:
        return str(self.interface) if self.interface.inputs or self.interface.outputs else ""
