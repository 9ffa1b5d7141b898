"""Models whose arguments and results have structure; of its own, so that it may be absent."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree
from transformers.utils import ModelOutput


@dataclasses.dataclass
class Scores(ModelOutput):
    logits: Any = None
    hidden: Any = None


@dataclasses.dataclass
class Boxes:
    corners: Any
    labels: Any = None


class Pair(NamedTuple):
    low: Any
    high: Any


# The name need not be that of the class.
torch.export.register_dataclass(Boxes, serialized_type_name="vision.Boxes")
pytree._register_namedtuple(Pair, serialized_type_name=f"{__name__}.Pair")


class Structured(torch.nn.Module):
    """Takes and returns about everything that a program may."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)

    def forward(
        self, x: Any, batch: Any, *, mask: Any = None, scale: float = 1.0, mode: str = "sum"
    ) -> Any:
        y = self.linear(x) * scale + batch["bias"][0]
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        total = y.sum(1) if mode == "sum" else y.mean(1)
        return {
            "scores": Scores(logits=y),
            "boxes": Boxes(corners=(total, 2)),
            "range": Pair(y.amin(1), y.amax(1)),
            "rest": [None, y * 2],
        }

    @staticmethod
    def example() -> tuple[tuple[Any, ...], dict[str, Any]]:
        mask = torch.tensor([[True, False, False]]).expand(2, 3).contiguous()
        batch = {"bias": [torch.ones(3), None]}
        return (torch.randn(2, 4), batch), {"mask": mask, "scale": 2.0, "mode": "sum"}


class Writer(torch.nn.Module):
    """Writes to two of its arguments, in another order than it takes them."""

    def forward(self, first: Any, x: Any, second: Any) -> Any:
        second.mul_(2)
        first.add_(x)
        return x + 1
