"""Views, joins and paddings."""

from __future__ import annotations

import torch
from random_modules import RefusedError, Writer

from random_steps.operands import BEFORE_2_13, slices


def joined(w: Writer) -> object:
    x = w.dims(1)
    value = w.values[x]
    dim = w.dim(x)
    # ExecuTorch's check of edge programs refuses to join two dtypes.
    y = w.tensor(lambda other: other.dim() == value.dim() and other.dtype == value.dtype)
    text = w.one(
        *(
            "torch.cat([{x}, {y}], {d})",
            "torch.stack([{x}, {x}], {d})",
            "torch.cat([{x}, {x}], {d})",
        ),
        *("torch.stack([{x}, {y}])", "torch.hstack([{x}, {y}])", "torch.vstack([{x}, {y}])"),
        *(
            "torch.cat([{x}[:1], {y}, {x}])",
            "torch.cat([{x}, {x}[:0]])",
            "torch.cat([{x}.flatten(), {y}.flatten()])",
        ),
        "torch.cat([{x}, {y}.flip({d})], {d})",
    )
    return w.let(text.format(x=x, y=y, d=dim))


def parts(w: Writer) -> object:
    x = w.dims(1)
    dim = w.dim(x)
    size = w.values[x].shape[dim]
    cut = w.number(0, size)
    text = w.one(
        *("{x}.chunk(2, {d})", "{x}.split(2, {d})", "{x}.split([{c}, {size} - {c}], {d})"),
        *("{x}.unbind({d})", "{x}.tensor_split(3, {d})", "{x}.narrow({d}, {c}, {size} - {c})"),
        *("{x}.select({d}, {i})", "{x}.diagonal()", "{x}.diagonal(1, -2, -1)"),
    )
    if BEFORE_2_13 and not size and "split(2" in text:
        raise RefusedError("torch.export refuses to split nothing")
    return w.let(text.format(x=x, d=dim, c=cut, size=size, i=w.number(0, max(size - 1, 0))))


def sliced(w: Writer) -> object:
    x = w.dims(1)
    return w.let(f"{x}[{slices(w, x)}]")


def triangle(w: Writer) -> object:
    x = w.dims(2)
    if w.values[x].dtype == torch.bool:
        raise RefusedError("no triangles of truth")
    text = w.one("{x}.tril({n})", "{x}.triu({n})", "{x}.tril()", "torch.diag_embed({x})")
    return w.let(text.format(x=x, n=w.number(-2, 2)))


def padded(w: Writer) -> object:
    x = w.floats(2, 4)
    ends = [w.number(-1, 2), w.number(0, 2)]
    mode = w.one("constant", "constant", "reflect", "replicate", "circular")
    if mode == "constant":
        ends += [w.number(0, 2), w.number(-1, 1)] if w.chance(0.4) else []
        return w.let(f"F.pad({x}, {tuple(ends)}, value={w.one(0, 1.5)})")
    return w.let(f"F.pad({x}, {tuple(map(abs, ends))}, mode='{mode}')")


def image(w: Writer) -> object:
    x = w.floats(4, 4)
    count = w.values[x].shape[0]
    grid = f"torch.linspace(-0.77, 0.83, 8).reshape(1, 2, 2, 2).expand({count}, 2, 2, 2)"
    text = w.one(
        *("F.unfold({x}, 2, padding=1)", "F.pixel_shuffle({x}, 2)", "F.pixel_unshuffle({x}, 2)"),
        *("F.channel_shuffle({x}, 2)", "F.local_response_norm({x}, 2)"),
        "F.grid_sample({x}, {grid}, align_corners=False)",
    )
    if "unshuffle" in text and not w.values[x].numel():
        raise RefusedError("eager leaves the shape of nothing as it is")
    return w.let(text.format(x=x, grid=grid))
