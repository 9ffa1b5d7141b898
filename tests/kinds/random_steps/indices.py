"""Reads and writes by index."""

from __future__ import annotations

import torch
from random_modules import RefusedError, Writer, is_integer

from random_steps.operands import dims_of, permutation, some_index


def indexed(w: Writer) -> object:
    x = w.dims(1)
    sizes = w.values[x].shape
    first = some_index(w, sizes[0])
    dim = w.dim(x)
    kind = w.number(0, 6)
    if kind == 0:
        return w.let(f"{x}[{first}]")
    if kind == 1 and len(sizes) > 1:
        return w.let(f"{x}[:, {some_index(w, sizes[1])}]")
    if kind == 2 and len(sizes) > 1:
        length = w.number(1, 4)
        shape = w.one("", "[:, None]")
        return w.let(
            f"{x}[{some_index(w, sizes[0], length)}{shape}, {some_index(w, sizes[1], length)}]"
        )
    if kind == 3 and len(sizes) > 2:
        return w.let(f"{x}[{some_index(w, sizes[0], 3)}, :, {some_index(w, sizes[2], 3)}]")
    if kind == 4:
        return w.let(f"{x}[..., {some_index(w, sizes[-1])}, None]")
    return w.let(f"{x}.index_select({dim}, {some_index(w, sizes[dim], ordered=True)})")


def gathered(w: Writer) -> object:
    x = w.dims(1)
    dim = w.dim(x)
    size = w.values[x].shape[dim]
    if not size:
        raise RefusedError("nothing to gather")
    index = w.tensor(lambda value: is_integer(value) and value.dim() == dims_of(w, x))
    text = w.one(
        "{x}.gather({d}, {i}.to(torch.int64) % {n})",
        "torch.take_along_dim({x}, {i}.to(torch.int64) % {n}, {d})",
        "{x}.take({i}.to(torch.int64) % {n})",
    )
    return w.let(text.format(x=x, d=dim, i=index, n=size))


def gathered_in_order(w: Writer) -> object:
    """As decoders and samplers do: order, then follow the order."""
    x = w.floats(1)
    dim = w.dim(x)
    w.distinct(x, dim)
    order = w.let(f"{x}.argsort({dim}{w.one('', ', descending=True')})")
    y = w.tensor(lambda value: value.shape == w.values[x].shape)
    return w.let(f"{y}.gather({dim}, {order})")


def scattered(w: Writer) -> object:
    x = w.dims(1)
    value = w.values[x]
    dim = w.dim(x)
    size = value.shape[dim]
    if not size or value.dtype == torch.bool:
        raise RefusedError("nothing to scatter to")
    length = w.number(1, size)
    source = w.tensor(lambda y: y.dtype == value.dtype and y.dim() == value.dim())
    part = f"{source}.narrow({dim}, 0, {length})"
    unique, some = permutation(w, size, length), some_index(w, size, length, ordered=True)
    full = [1] * value.dim()
    full[dim] = -1
    wide = list(value.shape)
    wide[dim] = length
    how = f"'{w.one('sum', 'amax', 'amin', 'prod', 'mean')}', include_self={w.chance(0.5)}"
    text = w.one(
        *("{x}.index_add({d}, {some}, {part})", "{x}.index_copy({d}, {unique}, {part})"),
        *("{x}.index_fill({d}, {some}, 2)", "{x}.index_add({d}, {some}, {part}, alpha=2)"),
        "{x}.scatter({d}, {unique}.view({full}).expand({wide}), {part})",
        "{x}.scatter_add({d}, {some}.view({full}).expand({wide}), {part})",
        "{x}.scatter({d}, {some}.view({full}).expand({wide}), 1)",
        "{x}.scatter_reduce({d}, {some}.view({full}).expand({wide}), {part}, {how})",
        "{x}.index_reduce({d}, {some}, {part}, {how})",
        "{x}.scatter({d}, {unique}.view({full}).expand({wide}), 1, reduce='add')",
    )
    return w.let(
        text.format(
            **{"x": x, "d": dim, "some": some, "unique": unique, "part": part, "full": full},
            **{
                "wide": wide,
                "how": how,
            },
        )
    )


def put(w: Writer) -> object:
    x = w.dims(1)
    size = w.values[x].shape[0]
    if not size or w.values[x].dtype == torch.bool:
        raise RefusedError("nothing to put")
    length = w.number(1, size)
    some = some_index(w, size, length, ordered=True)
    y = f"{x}[:{length}].flip(0)"
    text = w.one(
        "{x}.index_put(({some},), {y}, accumulate=True)",
        "{x}.index_put(({unique},), {y})",
        *("{x}.select_scatter({x}[0], 0, {last})", "{x}.slice_scatter({y}, 0, 0, {length})"),
        "{x}.masked_scatter({x} > {x}.amin(), {x}.flip(0))",
        "{x}.diagonal_scatter({x}.diagonal() * 0)",
    )
    if "masked_scatter" in text:
        w.apart(f"{x}.sort().values.flatten()[1:]", f"{x}.amin()")
    unique = permutation(w, size, length)
    return w.let(text.format(x=x, some=some, unique=unique, y=y, last=size - 1, length=length))


def searched(w: Writer) -> object:
    x = w.floats()
    edges = [-1.03, -0.21, 0.37, 1.11]
    for edge in edges:
        w.apart(x, str(edge))
    dtype = w.values[x].dtype
    right = w.chance(0.5)
    if w.chance(0.5):
        return w.let(f"torch.bucketize({x}, torch.tensor({edges}, dtype={dtype}), right={right})")
    return w.let(f"torch.searchsorted(torch.tensor({edges}, dtype={dtype}), {x}, right={right})")
