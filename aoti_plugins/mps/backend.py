"""The MPS delegate's lowering side; its runtime side is native/src/mps/."""

from __future__ import annotations

from typing import final

from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from aoti_plugins.lowering import backend


@final
class AotiMpsBackend(BackendDetails):
    """Lowers partitions for Apple GPUs. The class name is the backend id in the program."""

    @staticmethod
    def preprocess(
        edge_program: ExportedProgram, compile_specs: list[CompileSpec]
    ) -> PreprocessResult:
        """Lower one partition whose method is not known: it is called ``forward``."""
        return backend.preprocess_one("mps", edge_program, compile_specs)

    @classmethod
    def preprocess_multimethod(
        cls,
        edge_programs: dict[str, list[ExportedProgram]],
        compile_specs: dict[str, list[list[CompileSpec]]],
    ) -> dict[str, list[PreprocessResult]]:
        """Lower all partitions of all methods; ExecuTorch gives the methods' names."""
        return backend.preprocess_all("mps", edge_programs, compile_specs)
