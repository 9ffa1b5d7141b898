"""Runs lowered programs from Python, and makes the delegates known to ExecuTorch's own runtime.

Example:
    >>> from aoti_plugins.runtime import Program
    >>> with Program("model.pte") as program:           # doctest: +SKIP
    ...     (logits,) = program(images)                 # torch tensors, numpy arrays, or DLPack

Called like the module that was exported, with arguments by name and results as it returned them:
    >>> model = Program("model.pte").module()           # doctest: +SKIP
    >>> model(ids, attention_mask=mask).logits          # doctest: +SKIP

With the stock runtime instead:
    >>> from aoti_plugins.runtime import register
    >>> register()                                      # doctest: +SKIP
    >>> from executorch.runtime import Runtime          # doctest: +SKIP
    >>> Runtime.get().load_program("model.pte")         # doctest: +SKIP

Importing this package imports neither torch nor executorch; ``Program`` needs neither of the two,
only the libraries that the executorch wheel brings. So it works with every torch, or with none.
"""

from __future__ import annotations

from aoti_plugins.native_files import LIBRARY_DIR_VARIABLE, cmake_dir
from aoti_plugins.runtime._libraries import (
    executorch_library_dir,
    library_path,
    register,
)
from aoti_plugins.runtime.delegate_options import backends, get_options, set_options
from aoti_plugins.runtime.events import CallEvent
from aoti_plugins.runtime.method import Method
from aoti_plugins.runtime.module import ProgramModule
from aoti_plugins.runtime.program import Program
from aoti_plugins.runtime.ranks import current_place, data_files_of_rank, set_rank
from aoti_plugins.runtime.specs import ValueInfo
from aoti_plugins.runtime.trust import require_signatures

__all__ = [
    "LIBRARY_DIR_VARIABLE",
    "CallEvent",
    "Method",
    "Program",
    "ProgramModule",
    "ValueInfo",
    "backends",
    "cmake_dir",
    "current_place",
    "data_files_of_rank",
    "executorch_library_dir",
    "get_options",
    "library_path",
    "register",
    "require_signatures",
    "set_options",
    "set_rank",
]
