"""Assignments, buffers, constants, and small pieces of models."""

from __future__ import annotations

import torch
from random_modules import RefusedError, Writer

from random_steps.operands import BEFORE_2_13, dims_of, fits, layer_dtype, slices


def assignment(w: Writer) -> object:
    name = w.own() if w.chance(0.5) else w.let(f"{w.dims(1)}.clone()")
    if not dims_of(w, name):
        raise RefusedError("no dims")
    place = f"{name}[{slices(w, name)}]"
    target = w.evaluate(place)
    try:
        source = w.tensor(lambda y: fits(y.shape, target.shape) and y.dim() <= target.dim())
    except RefusedError:
        source = "1"
    if isinstance(w.values.get(source), torch.Tensor) and _crosses(target, w.values[source]):
        source = f"{place} * 2" if target.dtype != torch.bool else f"~{place}"
    if target.dtype != torch.bool and w.chance(0.5) and target.is_floating_point():
        return w.do(f"{place} {w.one('+=', '*=', '-=')} {source}", name)
    return w.do(f"{place} = {source}", name)


def _crosses(target: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether a cast would depend on rounding, or both may share memory."""
    shared = target.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()
    return shared or (source.is_floating_point() and not target.is_floating_point())


def in_place(w: Writer) -> object:
    name = w.own(0) if w.chance(0.5) else w.let(f"{w.dims(0)}.clone()")
    value = w.values[name]
    if not value.is_floating_point():
        text = w.one(
            "{x}.zero_()", "{x}.fill_(1)", "{x}.t_()", "{x}.unsqueeze_(0)", "{x}.squeeze_()"
        )
        return w.do(text.format(x=name), name)
    text = w.one(
        *("{x}.add_(1)", "{x}.mul_(0.5)", "{x}.relu_()", "{x}.clamp_(-1, 1)", "{x}.sin_()"),
        *("{x}[:1].fill_(3)", "{x}.transpose(0, -1).mul_(2)", "{x}.unsqueeze_(-1)", "{x}.t_()"),
        *(
            "{x}.flatten().add_(1)",
            "{x}.view(-1)[:2].zero_()",
            "{x}.sub_({x}.mean())",
            "{x}.tanh_()",
        ),
        *(
            "{x}.select(0, -1).copy_({x}.select(0, 0).clone())",
            "{x}.tril_()",
            "{x}.copy_({x}.flip(0))",
        ),
        *("{x}.index_fill_(0, torch.tensor([0]), 4)", "{x}.diagonal().fill_(1)", "{x}.div_(2)"),
        *("{x}.index_add_(0, torch.tensor([0, 0]), {x}[:1].repeat_interleave(2, 0))",),
        *(
            "{x}.masked_fill_({x} * 0 == 0, 2)",
            "{x}.addcmul_({x}, {x}, value=0.1)",
            "{x}[..., 0] *= 3",
        ),
        *(
            "{x}[..., ::2] = {x}[..., :1].clone()",
            "{x}[0] = {x}[-1].clone()",
            "{x}.unbind(0)[0].add_(1)",
        ),
    )
    if BEFORE_2_13 and "flatten" in text and not value.is_contiguous():
        raise RefusedError("an export takes it for a view")
    return w.do(text.format(x=name), name)


def state(w: Writer) -> object:
    """A buffer that is written to: a counter, an average, a window, a cache."""
    kind = w.number(0, 4)
    if kind == 0:
        count = w.buffer("torch.zeros((), dtype=torch.int64)")
        w.lines.append(f"{count} += {w.number(1, 3)}")
        return w.let(f"{count} + 1")
    x = w.floats(1)
    sizes = tuple(w.values[x].shape)
    kept = w.buffer(f"torch.zeros({sizes}, dtype={w.values[x].dtype})")
    if kind == 1:
        w.do(f"{kept}.mul_(0.5).add_({x}, alpha=0.25)", kept)
        return w.let(f"{x} - {kept}")
    if kind == 2:
        w.do(f"{kept}.copy_({kept}.roll(1, 0) + {x})", kept)
        return w.let(f"{kept}.sum(0)")
    if kind == 3 and sizes[0]:
        w.do(f"{kept}[{w.number(0, sizes[0] - 1)}] += {x}[0]", kept)
        return w.let(f"{kept}.clone()")
    place = w.buffer("torch.zeros(1, dtype=torch.int64)")
    if not sizes[0]:
        raise RefusedError("nothing to keep")
    w.do(f"{kept}.index_copy_(0, {place} % {sizes[0]}, {x}[:1])", kept)
    w.lines.append(f"{place} += 1")
    return w.let(f"{kept} * 2")


def constant(w: Writer) -> object:
    x = w.dims(1)
    size = w.values[x].shape[-1]
    dtype = w.one("float32", "float32", "int64", "float64", "bfloat16", "int32")
    text = w.one(
        *(
            "torch.arange({n}, dtype=torch.{t})",
            "torch.ones({n}, dtype=torch.{t})",
            "torch.eye({n}, dtype=torch.{t})",
        ),
        *("torch.zeros_like({x})", "torch.full(({n},), 2, dtype=torch.{t})", "{x}.new_ones({n})"),
        *(
            "torch.full_like({x}, 1)",
            "torch.linspace(-1, 1, {n}, dtype=torch.float32)",
            "torch.tensor(2, dtype=torch.{t})",
        ),
        *(
            "torch.arange({x}.shape[-1])",
            "torch.arange(0, {n} * 2, 2).to({x}.dtype)",
            "{x}.new_zeros(2, {n})",
        ),
        "torch.ones({n}, {n}, dtype=torch.bool).tril()",
    )
    return w.let(text.format(x=x, n=size, t=dtype))


def mesh(w: Writer) -> object:
    x, y = w.dims(1, 1), w.dims(1, 1)
    return w.let(f"torch.meshgrid({x}, {y}.to({x}.dtype), indexing='{w.one('ij', 'xy')}')")


def rotated(w: Writer) -> object:
    """Rotary positions as language models write them."""
    x = w.floats(2)
    rows, size = w.values[x].shape[-2:]
    if size % 2 or not size:
        raise RefusedError("odd")
    half = size // 2
    angle = w.let(
        f"torch.arange({rows}, dtype=torch.float32)[:, None]"
        f" * (1.0 / 100.0 ** (torch.arange({half}, dtype=torch.float32) / {half}))"
    )
    both = w.let(f"torch.cat([{angle}, {angle}], -1)")
    turned = w.let(f"torch.cat([-{x}[..., {half}:], {x}[..., :{half}]], -1)")
    return w.let(f"{x} * {both}.cos() + {turned} * {both}.sin()")


def gated_experts(w: Writer) -> object:
    """A few experts, of which each row takes the best."""
    x = w.floats(2, 2)
    kind = layer_dtype(w.values[x])
    size = w.values[x].shape[1]
    gate = w.layer(f"nn.Linear({size}, 3{kind})")
    scores = w.let(f"{gate}({x}).softmax(-1)")
    w.distinct(scores, -1)
    w.let(f"{scores}.topk(2, -1)")
    best, index = list(w.values)[-2:]
    weights = w.parameter(f"torch.randn(3, {size}, 2).to({w.values[x].dtype})")
    return w.let(
        f"(torch.einsum('ni,nkio->nko', {x}, {weights}[{index}]) * {best}[..., None]).sum(1)"
    )


def scalar_of(w: Writer) -> object:
    x = w.dims(0)
    value = w.values[x]
    numbers = [
        f"x{i}" for i in range(len(w.inputs)) if not isinstance(w.values[f"x{i}"], torch.Tensor)
    ]
    if not numbers or value.dtype == torch.bool or not value.is_floating_point():
        raise RefusedError("no number")
    return w.let(f"{x} {w.one('+', '*', '-')} {w.one(*numbers)}")
