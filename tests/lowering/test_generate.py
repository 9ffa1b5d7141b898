"""Generation of one graph, without what is around it."""

from __future__ import annotations

import contextlib
import warnings

import pytest
import torch

from aoti_plugins.lowering.inductor.generate import generation


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


def warn(module: str) -> None:
    warnings.warn_explicit("advice", UserWarning, "file.py", 1, module=module)


def test_where_warnings_are_errors_advice_of_inductor_is_none() -> None:
    inputs = (torch.ones(2),)
    module = torch.export.export(Double(), inputs).module()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with generation(module, inputs, {}, contextlib.nullcontext()):
            warn("torch._inductor.lowering")
            with pytest.raises(UserWarning, match="advice"):
                warn("somebody.else")
        with pytest.raises(UserWarning, match="advice"):
            warn("torch._inductor.lowering")
