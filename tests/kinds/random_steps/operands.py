"""Inputs, and what a step has beside a tensor."""

from __future__ import annotations

import torch
from random_modules import FLOATS, INTEGERS, WITHOUT_DIMS, RefusedError, Writer

# Before 2.13 eager attention of nothing divides by 0, which ends the process; ``torch.export`` ends
# with an error at ``split`` of nothing, gives norms over a dim of size 1 that dim, and may write to
# a tensor where eager writes to a copy that ``flatten`` makes.
BEFORE_2_13 = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)


def random_input(w: Writer) -> str:
    """An expression that makes one input: a tensor of some layout, or a number."""
    if w.inputs and w.chance(0.06):
        return str(w.one(2, 3, 0.5, -1.25))
    sizes = [_size(w) for _ in range(w.one(0, 1, 2, 2, 2, 3, 3, 4))]
    dtype = _dtype(w)
    made = _filled(w, dtype if sizes or dtype in WITHOUT_DIMS else "float32", sizes)
    if 0 in sizes:  # other layouts than this one have strides of 0
        return made
    if len(sizes) == 4 and w.chance(0.3):
        return f"{made}.contiguous(memory_format=torch.channels_last)"
    if len(sizes) > 1 and w.chance(0.2):
        return f"{made}.transpose({w.number(0, len(sizes) - 1)}, {w.number(0, len(sizes) - 1)})"
    return made


def _size(w: Writer) -> int:
    return 0 if w.chance(0.015) else int(w.one(1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 16, 17))


def _dtype(w: Writer) -> str:
    return str(w.one(*["float32"] * 9, "float64", "bfloat16", "float16", *_WHOLE, "bool"))


_WHOLE = ("int64", "int64", *INTEGERS)


def _filled(w: Writer, dtype: str, sizes: list[int]) -> str:
    shape = f"({', '.join(map(str, sizes))}{',' * (len(sizes) == 1)})"
    if dtype in FLOATS:
        made = f"torch.randn({shape})"
        return made if dtype == "float32" else f"{made}.to(torch.{dtype})"
    low, high = (0, 2) if dtype == "bool" else (0 if dtype == "uint8" else -9, 10)
    return f"torch.randint({low}, {high}, {shape}).to(torch.{dtype})"


def operand(w: Writer, name: str) -> str:
    """Something that an op may have beside a tensor: one like it, a broadcast one, a number."""
    value = w.values[name]
    kind = w.number(0, 5)
    if kind == 0:
        return str(w.one(2, -1, 3, 0.5, 1.5) if value.is_floating_point() else w.one(1, 2, -1, 3))
    if kind == 1 and value.dtype != torch.bool:
        return w.parameter(_filled(w, _name(value), [w.one(1, size) for size in value.shape]))
    if kind == 2:
        scalars = [f"x{i}" for i in range(len(w.inputs)) if isinstance(w.values[f"x{i}"], float)]
        if scalars:
            return str(w.one(*scalars))
    try:
        return w.tensor(lambda x: fits(x.shape, value.shape) and x.dtype != torch.bool)
    except RefusedError:
        return str(w.one(2, 3))


def fits(first: torch.Size, second: torch.Size) -> bool:
    pairs = zip(reversed(first), reversed(second), strict=False)
    return all(one == other or 1 in (one, other) for one, other in pairs)


def _name(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def some_index(w: Writer, count: int, length: int | None = None, ordered: bool = False) -> str:
    """An expression for indices below ``count``: constant ones, or some that are computed."""
    if not count:
        raise RefusedError("nothing to index")
    length = length or w.number(1, 5)
    low = 0 if ordered or w.chance(0.6) else -count
    if w.chance(0.4):
        name = w.integers(1, 1)
        return f"({name}.to(torch.int64) % {count})"
    values = [w.number(low, count - 1) for _ in range(length)]
    dtype = w.one("", "", ", dtype=torch.int32") if not ordered else ""
    return f"torch.tensor({values}{dtype})"


def permutation(w: Writer, count: int, length: int | None = None) -> str:
    order = list(range(count))
    w.random.shuffle(order)
    return f"torch.tensor({order[: length or count]})"


def dims_of(w: Writer, name: str) -> int:
    return int(w.values[name].dim())


def layer_dtype(value: torch.Tensor) -> str:
    return "" if value.dtype == torch.float32 else f", dtype={value.dtype}"


def ordered(w: Writer) -> object:
    x = w.dims(1)
    dim = w.dim(x)
    if w.values[x].dtype == torch.bool:
        raise RefusedError("equal values")
    w.distinct(x, dim)
    text = w.one(
        *(
            "{x}.argmax({d})",
            "{x}.argmin({d}, keepdim=True)",
            "{x}.sort({d})",
            "{x}.sort({d}, True)",
        ),
        *(
            "{x}.topk({n}, {d})",
            "{x}.topk({n}, {d}, largest=False)",
            "{x}.argsort({d})",
            "{x}.max({d})",
        ),
        *("{x}.min({d}, keepdim=True)", "{x}.cummax({d})", "{x}.cummin({d})", "{x}.median({d})"),
        *("{x}.kthvalue({n}, {d})", "torch.aminmax({x}, dim={d})", "{x}.sort({d}, stable=True)"),
    )
    return w.let(text.format(x=x, d=dim, n=w.number(1, max(w.values[x].shape[dim], 1))))


def shape(w: Writer) -> object:
    x = w.dims(0)
    count = dims_of(w, x)
    first, second = w.dim(x), w.dim(x)
    order = list(range(count))
    w.random.shuffle(order)
    text = w.one(
        *("{x}.transpose({a}, {b})", "{x}.permute({order})", "{x}.unsqueeze({a})", "{x}.squeeze()"),
        *(
            "{x}.squeeze({a})",
            "{x}.flatten()",
            "{x}.reshape(-1)",
            "{x}.flip({a})",
            "{x}.flip(0, -1)",
        ),
        *("{x}.roll(1, {a})", "{x}.roll((1, 2), (0, 1))", "{x}.roll(3)", "{x}.movedim({a}, {b})"),
        *("{x}.flatten({a})", "{x}.flatten(0, 1)", "{x}.unflatten({a}, (-1, 1))", "{x}[None]"),
        *(
            "{x}.rot90()",
            "{x}.T",
            "{x}.mT",
            "{x}.expand(3, *{sizes})",
            "{x}.unsqueeze({a}).expand({wide})",
        ),
        *(
            "{x}.repeat(2, *{ones})",
            "{x}.tile((2,))",
            "{x}.repeat_interleave(2, {a})",
            "{x}.ravel()",
        ),
        *(
            "{x}.reshape({sizes}[::-1])",
            "{x}.view({sizes}[0], -1)",
            "{x}.swapaxes({a}, {b}).contiguous()",
        ),
        *(
            "{x}.broadcast_to((2, *{sizes}))",
            "{x}.fliplr()",
            "{x}.reshape(2, -1)",
            "{x}.reshape(-1, 2).T",
        ),
        *(
            "{x}.view_as({x})",
            "{x}.adjoint()",
            "{x}.unfold({a}, 2, 1)",
            "{x}.unfold({a}, {size}, 2)",
        ),
    )
    if ".roll((1, 2)" in text and count < 2:
        raise RefusedError("eager rolls nothing over dims that are not there; torch.export refuses")
    sizes = tuple(w.values[x].shape)
    place = first % (count + 1)
    wide = [-1] * (count + 1)
    wide[place] = w.number(1, 4)
    a = place if "wide" in text else first
    return w.let(
        text.format(
            **{"x": x, "a": a, "b": second, "order": order, "sizes": sizes},
            **{"ones": [1] * count, "wide": wide, "size": w.number(1, 3)},
        )
    )


def slices(w: Writer, x: str) -> str:
    made = []
    for size in w.values[x].shape[: w.number(1, dims_of(w, x))]:
        low, high = sorted((w.number(0, size), w.number(0, size)))
        index = w.number(-size, size - 1) if size else 0
        made.append(w.one(":", f"{low}:", f":{high}", f"{low}:{high}", f"::{w.number(1, 3)}"))
        made[-1] = str(w.one(made[-1], made[-1], made[-1], index, f"-{size // 2 + 1}:", "None"))
    return ", ".join([*(["..."] if w.chance(0.15) else []), *made])
