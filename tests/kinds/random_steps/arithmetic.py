"""Elementwise steps."""

from __future__ import annotations

import torch
from random_modules import FLOATS, INTEGERS, RefusedError, Writer

from random_steps.operands import fits, operand


def unary(w: Writer) -> object:
    x = w.floats()
    text = w.one(
        *("{}.sin()", "{}.cos()", "{}.tanh()", "{}.clamp(-3, 3).exp()", "{}.sigmoid()", "{}.erf()"),
        *("{}.relu()", "F.silu({})", "{}.abs()", "-{}", "({}.abs() + 0.1).sqrt()", "{}.square()"),
        *("{}.abs().log1p()", "1 / ({}.abs() + 1)", "({}.abs() + 0.5).rsqrt()", "{}.atan()"),
        *("F.gelu({})", "F.gelu({}, approximate='tanh')", "F.leaky_relu({}, 0.1)", "F.elu({})"),
        *(
            "F.softplus({})",
            "F.hardtanh({})",
            "F.hardsigmoid({})",
            "F.logsigmoid({})",
            "F.selu({})",
        ),
        *(
            "{}.clamp(-1, 1).asinh()",
            "{}.sinc()",
            "{}.expm1().clamp(max=9)",
            "({}.abs() + 0.5).log2()",
        ),
        *("F.relu6({})", "F.softsign({})", "F.celu({})", "F.tanhshrink({})", "{}.deg2rad()"),
        *(
            "{}.nan_to_num()",
            "{}.clone()",
            "{}.detach()",
            "{}.contiguous()",
            "F.dropout({}, 0.5, False)",
        ),
        *("F.softshrink({})", "F.hardshrink({})", "F.threshold({}, 0.1, 5.0)", "{}.clamp(min=0.2)"),
        *(
            "({}.abs() + 1).digamma()",
            "({}.abs() + 1).lgamma()",
            "{}.erfc()",
            "{}.clamp(-2, 2).sinh()",
        ),
    )
    if "shrink" in text and "tanh" not in text:
        w.apart(f"{x}.abs()", "0.5")
    if "threshold" in text:
        w.apart(x, "0.1")
    if "tanhshrink" in text and not w.values[x].abs().gt(0.5).any():
        raise RefusedError("mostly rounding is left")
    return w.let(text.format(x))


def rounded(w: Writer) -> object:
    x = w.floats()
    op = w.one("round", "floor", "ceil", "trunc", "sign", "frac")
    w.apart(f"({x} * 2).frac()", "0.0")
    w.apart(f"({x} * 2).frac().abs()", "1.0")
    return w.let(f"{x}.{op}()")


def binary(w: Writer) -> object:
    x = w.tensor(lambda value: value.dtype != torch.bool)
    y = operand(w, x)
    text = w.one(
        *("{x} + {y}", "{x} - {y}", "{x} * {y}", "{y} - {x}", "{x} * {y} + {x}"),
        *("torch.add({x}, {y}, alpha=2)", "torch.sub({x}, {y}, alpha=3)", "torch.rsub({x}, {y})"),
    )
    return w.let(text.format(x=x, y=y))


def division(w: Writer) -> object:
    x = w.floats()
    y = w.floats()
    text = w.one(
        *(
            "{x} / ({y}.abs() + 1)",
            "torch.atan2({x}, {y}.abs() + 0.5)",
            "torch.hypot({x}, {y} + 3)",
        ),
        *("({x}.abs() + 0.3) ** ({y}.tanh())", "{x} ** 2", "{x} ** 3", "({x}.abs() + 0.2) ** 0.5"),
        *("torch.maximum({x}, {y})", "torch.minimum({x}, {y})", "torch.logaddexp({x}, {y})"),
        *("2.0 ** {x}.clamp(-4, 4)", "torch.copysign({x}.abs() + 1, ({y}.abs() + 1))"),
        *("torch.xlogy({x}, {y}.abs() + 1)", "torch.fmax({x}, {y})", "{x} / 3"),
    )
    return w.let(text.format(x=x, y=y))


def ternary(w: Writer) -> object:
    x, y, z = w.floats(), w.floats(), w.floats()
    text = w.one(
        *("torch.lerp({x}, {y}, 0.3)", "torch.addcmul({x}, {y}, {z}, value=0.5)"),
        *("torch.addcdiv({x}, {y}, {z}.abs() + 1)", "torch.clamp({x}, -{z}.abs(), {y}.abs())"),
        *("torch.lerp({x}, {y}, {z}.sigmoid())", "torch.clamp({x}, min={y})"),
    )
    return w.let(text.format(x=x, y=y, z=z))


def whole(w: Writer) -> object:
    x = w.integers()
    y = w.integers()
    text = w.one(
        *(
            "{x} // 3",
            "{x} % 4",
            "{x} // ({y}.abs() % 7 + 1)",
            "{x} % -5",
            "{x} & {y}",
            "{x} | {y}",
        ),
        *("{x} ^ {y}", "~{x}", "{x} << 1", "{x} >> 1", "{x} / 4", "torch.fmod({x}, 3)", "{x} ** 2"),
        *("{x}.abs()", "{x}.sign()", "torch.gcd({x}, {y})", "torch.maximum({x}, {y})", "-{x}"),
        *(
            "torch.div({x}, 3, rounding_mode='trunc')",
            "torch.div({x}, {y}.abs() + 1.5)",
            "{x} * 0.5",
        ),
        *(
            "{x}.clamp(-2, 5)",
            "{x}.clamp(min=1)",
            "torch.remainder({x}, {y}.abs() + 1)",
            "{x} + {y}",
        ),
        *(
            "{x} + 0.5",
            "{x}.sin()",
            "{x}.float().sqrt().nan_to_num()",
            "{x} * {y}",
            "{x}.sigmoid()",
        ),
    )
    return w.let(text.format(x=x, y=y))


def comparison(w: Writer) -> object:
    x = w.dims(0)
    y = w.one("0", "1", "0.5", w.dims(0))
    if w.values[x].is_floating_point() or "." in y or _is_float(w, y):
        w.apart(f"{x}", y)
    return w.let(f"{x} {w.one('<', '<=', '>', '>=', '==', '!=')} {y}")


def _is_float(w: Writer, name: str) -> bool:
    return isinstance(w.values.get(name), torch.Tensor) and w.values[name].is_floating_point()


def logic(w: Writer) -> object:
    x, y = w.truths(), w.truths()
    text = w.one(
        *("{x} & {y}", "{x} | {y}", "{x} ^ {y}", "~{x}", "{x}.logical_or({y})", "{x} == {y}"),
        *("{x}.logical_not()", "{x}.to(torch.float32)", "{x} * 2", "{x} + {y}", "{x}.int() - 1"),
        *("{x} * 0.5", "{x}.sum(-1)", "{x}.any(0)", "{x}.all(-1, keepdim=True)", "{x}.cumsum(0)"),
    )
    return w.let(text.format(x=x, y=y))


def choice(w: Writer) -> object:
    if not any(w.values[name].dtype == torch.bool for name in w.tensors()):
        comparison(w)
    mask = w.truths()
    x = w.tensor(lambda value: fits(value.shape, w.values[mask].shape))
    y = operand(w, x)
    text = w.one(
        *("torch.where({m}, {x}, {y})", "torch.where({m}, {y}, {x})", "{x}.masked_fill({m}, 2)"),
        *("{x} * {m}", "torch.where(~{m}, {x}, 0)", "{x}.masked_fill(~{m}, 0)"),
        *("torch.where({m}, {x}.sin(), {x} + 1)", "torch.where({m}, 1.0, {x})", "{x} + {m}"),
    )
    return w.let(text.format(m=mask, x=x, y=y))


def cast(w: Writer) -> object:
    x = w.dims(0)
    value = w.values[x]
    dtype = w.one(*FLOATS, *INTEGERS, "bool", "float32", "int64")
    if value.is_floating_point() and dtype in (*INTEGERS, "bool"):
        w.apart(f"{x}.frac()")
        w.apart(f"{x}.frac().abs()", "1.0")
        low = 0 if dtype == "uint8" else -100
        return w.let(f"{x}.clamp({low}, 100).to(torch.{dtype})")
    if w.chance(0.1):
        return w.let(f"{x}.type_as({w.dims(0)})" if not value.is_floating_point() else f"{x} + 0")
    return w.let(f"{x}.to(torch.{dtype})")
