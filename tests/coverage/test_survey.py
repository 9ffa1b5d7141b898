"""The survey tells apart how operators are run."""

from __future__ import annotations

import torch
from operator_case import Case, some
from survey import Survey


def test_ways() -> None:
    survey = Survey(("cpu",))
    x = some(3, 4)

    def ask(op: str, program: object) -> object:
        return survey.ask(Case(op, program, (x,)))["cpu"]

    generated = ask("aten.relu.default", torch.relu)
    assert (generated.reason, generated.kernels, generated.is_decomposed) == ("", (), False)
    kernel = ask("aten.topk.default", lambda x: torch.topk(x, 2))
    assert kernel.kernels == ("aoti_torch_cpu_topk",)
    decomposed = ask("aten.kthvalue.default", lambda x: torch.kthvalue(x, 2)[0])
    assert decomposed.reason == ""
    assert decomposed.is_decomposed
    outside = ask("aten._linalg_eigh.default", lambda x: torch.linalg.eigvalsh(x @ x.mT))
    assert "eigh" in outside.reason
