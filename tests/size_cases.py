"""One construct each in which a size of 0 or 1 is apt to be taken for a larger one.

All of them get ``x [s, 16]``, ``y [t, 16]`` and ``index [s]``. Most are right with no elements at
all; those of ``NOT_EMPTY`` PyTorch itself refuses then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional
from torch.torch_version import TorchVersion
from torch.utils import _pytree as pytree

Construct = Callable[[Tensor, Tensor, Tensor], Any]

WIDTH, ROWS = 16, 11
EXAMPLE, LARGEST = (3, 5), (8, 6)


def _heads(x: Tensor) -> Tensor:
    return x.view(1, -1, 4, 4).transpose(1, 2)


def _attention(query: Tensor, key: Tensor, **options: Any) -> Tensor:
    heads = (_heads(query), _heads(key), _heads(key))
    return functional.scaled_dot_product_attention(*heads, **options)


def _fixed(*shape: int) -> Tensor:
    """Numbers that are always the same, computed in the program."""
    count = torch.Size(shape).numel()
    return (torch.arange(count).reshape(shape) * 7 % 13 - 6) / 10


EMPTY_TOO: Mapping[str, Construct] = {
    "broadcast": lambda x, y, i: x + x[:, :1] + _fixed(16),
    "outer sum": lambda x, y, i: x[:, None, :] + y[None],
    "expand": lambda x, y, i: x[:, None, :].expand(-1, 3, -1) * 2,
    "expand from one": lambda x, y, i: x.new_ones(1, 16).expand(x.shape[0], 16) + x,
    "sums": lambda x, y, i: (x.sum(0), x.sum(1, keepdim=True), x.sum(), x.prod(), x.mean(1)),
    "any and all": lambda x, y, i: ((x > 0).any(0), (x > 0).all(0), (y > 0).any()),
    "largest of a row": lambda x, y, i: (x.amax(1), x.argmax(1)),
    "softmax": lambda x, y, i: (x.softmax(0), x.softmax(1), functional.log_softmax(y, 0)),
    "layer norm": lambda x, y, i: functional.layer_norm(x, (16,), _fixed(16), _fixed(16)),
    "batch norm": lambda x, y, i: functional.batch_norm(x, _fixed(16), _fixed(16).abs() + 1),
    "cumsum": lambda x, y, i: (x.cumsum(0), x.cumsum(1)),
    "mm": lambda x, y, i: (x @ _fixed(16, 8), x @ y.t(), x.t() @ x),
    "addmm": lambda x, y, i: torch.addmm(_fixed(8), x, _fixed(16, 8)),
    "linear": lambda x, y, i: functional.linear(x[None], _fixed(8, 16), _fixed(8)).relu(),
    "bmm": lambda x, y, i: torch.bmm(x.view(-1, 4, 4), x.view(-1, 4, 4)),
    "matrix and vector": lambda x, y, i: (x @ _fixed(16), x[:, 0] @ x),
    "attention": lambda x, y, i: _attention(x, y),
    "causal attention": lambda x, y, i: _attention(x, x, is_causal=True),
    "attention with a mask": lambda x, y, i: _attention(x, y, attn_mask=x @ y.t() > -100),
    "attention with a bias": lambda x, y, i: _attention(x, y, attn_mask=x @ y.t()),
    "conv1d of a batch": lambda x, y, i: functional.conv1d(
        x[:, :, None], _fixed(4, 16, 3), padding=1
    ),
    "conv2d of a batch": lambda x, y, i: functional.conv2d(
        x[:, :12].reshape(-1, 3, 2, 2), _fixed(4, 3, 3, 3), padding=1
    ),
    "cat": lambda x, y, i: (torch.cat([x, y, x]), torch.cat([x, x * 2], 1), torch.stack([x, x], 1)),
    "views": lambda x, y, i: x.view(-1, 4, 4).permute(2, 0, 1).reshape(4, -1) * 2,
    "transposed": lambda x, y, i: x.t().contiguous().view(-1) + 1,
    "flatten": lambda x, y, i: (x * 2).flatten(),
    "index": lambda x, y, i: (_fixed(ROWS, 16)[i], x[:, [0, 3, 3]], x[torch.arange(x.shape[0]), i]),
    "embedding": lambda x, y, i: functional.embedding(i, _fixed(ROWS, 16)),
    "gather": lambda x, y, i: x.gather(1, (i[:, None] + torch.arange(3)) % 16),
    "scatter": lambda x, y, i: torch.zeros(ROWS, 16).index_add(0, i, x),
    "index_put": lambda x, y, i: torch.zeros(ROWS, 16).index_put((i,), x, accumulate=True),
    "where": lambda x, y, i: torch.where(x > 0, x, x.new_zeros(())),
    "triangles": lambda x, y, i: (torch.tril(x), torch.full(2 * x.shape[:1], -1.0).triu(1)),
    "pad": lambda x, y, i: functional.pad(x, (1, 2, 0, 1), value=3.0),
    "topk": lambda x, y, i: tuple(x.topk(3, 1)),
    "sort": lambda x, y, i: (*x.sort(dim=1, stable=True), *x.sort(dim=0, stable=True)),
    "flip and roll": lambda x, y, i: (x.flip(0), x.roll(1, 1)),
    "repeat": lambda x, y, i: (x.repeat(2, 2), x.repeat_interleave(3, 0)),
    "sizes of sizes": lambda x, y, i: torch.arange(x.shape[0] * 2 + 1) + y.shape[0],
}

NOT_EMPTY: dict[str, Construct] = {
    "largest of a column": lambda x, y, i: (x.amax(0), x.argmax(0), x.min()),
    "first and last": lambda x, y, i: x[-1] + y[0],
    "deviation": lambda x, y, i: (x.std(0, correction=0), x.std(1)),
    "logsumexp": lambda x, y, i: x.logsumexp(0),
    "conv1d": lambda x, y, i: functional.conv1d(x.t()[None], _fixed(4, 16, 3), padding=1),
    "transposed conv1d": lambda x, y, i: functional.conv_transpose1d(
        x.t()[None], _fixed(16, 4, 3), stride=2
    ),
    "average pool": lambda x, y, i: functional.avg_pool1d(x.t()[None], 3, 1, 1),
    "cummax": lambda x, y, i: x.cummax(0).values,
}
if TorchVersion(torch.__version__) >= "2.13":
    # torch.export of 2.11 finds that its size has to be at least 0, which it does not know.
    NOT_EMPTY["group norm"] = lambda x, y, i: functional.group_norm(x.t()[None], 4)

TABLES = {"empty_too": EMPTY_TOO, "not_empty": NOT_EMPTY}


class Table(nn.Module):
    """All constructs of a table as one program."""

    def __init__(self, constructs: Mapping[str, Construct]) -> None:
        super().__init__()
        self._constructs = dict(constructs)

    def forward(self, x: Tensor, y: Tensor, index: Tensor) -> Any:
        """Their results, in one flat tuple."""
        return tuple(pytree.tree_leaves([one(x, y, index) for one in self._constructs.values()]))


def inputs(s: int, t: int) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs of given sizes, always the same."""
    random = torch.Generator().manual_seed(100 * s + t)
    x, y = (torch.randn(n, WIDTH, generator=random) for n in (s, t))
    return x, y, torch.randint(0, ROWS, (s,), generator=random)


def exported(constructs: Mapping[str, Construct], **bounds: int) -> ExportedProgram:
    """A table, exported with sizes up to ``LARGEST``; ``bounds`` may give ``min``."""
    s, t = (Dim(name, max=most, **bounds) for name, most in zip("st", LARGEST, strict=True))
    dims = ({0: s}, {0: t}, {0: s})
    return export(Table(constructs).eval(), inputs(*EXAMPLE), dynamic_shapes=dims)


def sizes(least: int) -> Iterator[tuple[int, int]]:
    """The largest, the example's, and small sizes, together and apart, not in order."""
    small = range(least, 2)
    yield from (LARGEST, *((n, m) for n in small for m in small), EXAMPLE)
    yield from ((n, EXAMPLE[1]) for n in small)
    yield from ((EXAMPLE[0], n) for n in small)


def check(
    constructs: Mapping[str, Construct],
    found: Sequence[Tensor],
    values: tuple[Tensor, Tensor, Tensor],
) -> None:
    """Compare the results of a table with eager PyTorch.

    Raises:
        AssertionError: with the construct's name.
    """
    position = 0
    for construct, function in constructs.items():
        expected = pytree.tree_leaves(function(*values))
        for want, got in zip(expected, found[position:], strict=False):
            torch.testing.assert_close(
                got.cpu(),
                want,
                rtol=1e-4,
                atol=1e-4,
                equal_nan=True,
                msg=lambda text, construct=construct: f"{construct}: {text}",
            )
        position += len(expected)
    assert position == len(found)
