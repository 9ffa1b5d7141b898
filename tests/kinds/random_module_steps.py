"""The statements that random modules are made of. Each step writes one or a few lines."""

from __future__ import annotations

from collections.abc import Callable

import torch
from random_modules import FLOATS, INTEGERS, WITHOUT_DIMS, RefusedError, Writer, is_integer

Step = Callable[[Writer], object]


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


def _operand(w: Writer, name: str) -> str:
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
        return w.tensor(lambda x: _fits(x.shape, value.shape) and x.dtype != torch.bool)
    except RefusedError:
        return str(w.one(2, 3))


def _fits(first: torch.Size, second: torch.Size) -> bool:
    pairs = zip(reversed(first), reversed(second), strict=False)
    return all(one == other or 1 in (one, other) for one, other in pairs)


def _name(value: torch.Tensor) -> str:
    return str(value.dtype).removeprefix("torch.")


def _index(w: Writer, count: int, length: int | None = None, ordered: bool = False) -> str:
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


def _permutation(w: Writer, count: int, length: int | None = None) -> str:
    order = list(range(count))
    w.random.shuffle(order)
    return f"torch.tensor({order[: length or count]})"


def _dims_of(w: Writer, name: str) -> int:
    return int(w.values[name].dim())


# Layers.


def linear(w: Writer) -> object:
    x = w.floats(1)
    value = w.values[x]
    text = f"nn.Linear({value.shape[-1]}, {w.number(1, 9)}, bias={w.chance(0.7)}"
    layer = w.layer(f"{text}{_layer_dtype(value)})")
    return w.let(f"{layer}({x})")


def _layer_dtype(value: torch.Tensor) -> str:
    return "" if value.dtype == torch.float32 else f", dtype={value.dtype}"


def perceptron(w: Writer) -> object:
    x = w.floats(1)
    size, hidden = w.values[x].shape[-1], w.number(2, 12)
    kind = _layer_dtype(w.values[x])
    act = w.one("GELU", "ReLU", "SiLU", "Tanh", "ELU", "Mish", "Softplus", "Hardswish")
    layers = f"nn.Linear({size}, {hidden}{kind}), nn.{act}(), nn.Linear({hidden}, {size}{kind})"
    layer = w.layer(f"nn.Sequential({layers})")
    return w.let(f"{x} + {layer}({x})")


def convolution1d(w: Writer) -> object:
    x = w.floats(2, 3)
    return _convolution(w, x, 1)


def convolution2d(w: Writer) -> object:
    x = w.floats(3, 4)
    return _convolution(w, x, 2)


def _convolution(w: Writer, x: str, dims: int) -> object:
    value = w.values[x]
    channels = value.shape[-dims - 1]
    groups = w.one(1, 1, channels or 1)
    out = groups * w.number(1, 3)
    size, stride = w.number(1, 3), w.number(1, 2)
    transposed = w.chance(0.25)
    more = f"stride={stride}, padding={w.number(0, 2)}, groups={groups}, bias={w.chance(0.6)}"
    more += f", dilation={w.number(1, 2)}"
    if not transposed and w.chance(0.2):
        more += f", padding_mode='{w.one('reflect', 'circular', 'replicate')}'"
    kind = f"nn.Conv{'Transpose' * transposed}{dims}d"
    layer = w.layer(f"{kind}({channels}, {out}, {size}, {more}{_layer_dtype(value)})")
    if not w.evaluate(f"{layer}({x})").numel():
        raise RefusedError("torch.export refuses results without elements")
    return w.let(f"{layer}({x})")


def norm(w: Writer) -> object:
    x = w.floats(1)
    value = w.values[x]
    kept = w.number(1, value.dim())
    shape = list(value.shape[-kept:])
    kind = w.one("LayerNorm", "RMSNorm", "LayerNorm")
    more = w.one("", ", elementwise_affine=False", ", eps=1e-3")
    layer = w.layer(f"nn.{kind}({shape}{more}{_layer_dtype(value)})")
    return w.let(f"{layer}({x})")


def batch_norm(w: Writer) -> object:
    x = w.floats(2, 4)
    value = w.values[x]
    dims = max(value.dim() - 2, 1)
    kind = w.one("BatchNorm", "BatchNorm", "InstanceNorm")
    more = w.one("", ", affine=True", ", affine=False")
    layer = w.layer(f"nn.{kind}{dims}d({value.shape[1]}{more}{_layer_dtype(value)})")
    return w.let(f"{layer}({x})")


def group_norm(w: Writer) -> object:
    x = w.floats(2, 4)
    channels = w.values[x].shape[1]
    kind = _layer_dtype(w.values[x])
    layer = w.layer(f"nn.GroupNorm({w.one(1, 2, channels)}, {channels}{kind})")
    return w.let(f"{layer}({x})")


def embedding(w: Writer) -> object:
    index = w.integers(0, 3)
    rows = w.number(1, 12)
    layer = w.layer(f"nn.Embedding({rows}, {w.number(1, 8)}{w.one('', ', padding_idx=0')})")
    return w.let(f"{layer}({index}.to(torch.{w.one('int64', 'int32')}) % {rows})")


def bag(w: Writer) -> object:
    index = w.integers(2, 2)
    rows = w.number(1, 12)
    layer = w.layer(
        f"nn.EmbeddingBag({rows}, {w.number(1, 6)}, mode='{w.one('sum', 'mean', 'max')}')"
    )
    return w.let(f"{layer}({index}.to(torch.int64) % {rows})")


def attention_layer(w: Writer) -> object:
    x = w.floats(3, 3)
    heads, size = w.number(1, 3), w.number(1, 4)
    kind = _layer_dtype(w.values[x])
    proj = w.layer(f"nn.Linear({w.values[x].shape[-1]}, {heads * size}{kind})")
    layer = w.layer(f"nn.MultiheadAttention({heads * size}, {heads}, batch_first=True{kind})")
    q = w.let(f"{proj}({x})")
    # In eager it has a way of its own, whose result lies otherwise than an exported program's.
    return w.let(f"{layer}({q}, {q}, {q}, need_weights={w.chance(0.3)})[0].contiguous()")


def attention(w: Writer) -> object:
    x = w.floats(3, 4)
    k = w.tensor(lambda y: y.shape[-1:] == w.values[x].shape[-1:] and y.dim() == _dims_of(w, x))
    more = w.one("", ", is_causal=True", ", scale=0.3")
    if w.chance(0.4):
        rows, columns = w.values[x].shape[-2], w.values[k].shape[-2]
        more = f", attn_mask=torch.ones({rows}, {columns}, dtype=torch.bool).tril({w.one(0, 1)})"
    return w.let(f"F.scaled_dot_product_attention({x}, {k}, {k}.sin(){more})")


def attention_by_hand(w: Writer) -> object:
    x = w.floats(3, 3)
    scores = w.let(f"({x} @ {x}.transpose(-2, -1)) * {w.values[x].shape[-1] or 1} ** -0.5")
    rows = w.values[x].shape[1]
    mask = f"torch.full(({rows}, {rows}), -100.0).triu(1).to({scores}.dtype)"
    masked = w.let(f"{scores} + {mask}")
    return w.let(f"{masked}.softmax(-1) @ {x}")


def recurrent(w: Writer) -> object:
    x = w.floats(3, 3)
    if w.chance(0.6):
        raise RefusedError("they take long to lower")
    kind, more = w.one("GRU", "LSTM", "RNN"), w.one("", ", batch_first=True")
    hidden = w.number(1, 4)
    layer = w.layer(
        f"nn.{kind}({w.values[x].shape[-1]}, {hidden}{more}{_layer_dtype(w.values[x])})"
    )
    return w.let(f"{layer}({x})[0]")


def pooling(w: Writer) -> object:
    dims = w.number(1, 2)
    x = w.floats(dims + 1, dims + 2)
    kind = w.one("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool", "lp_pool")
    if kind.startswith("adaptive"):
        return w.let(f"F.{kind}{dims}d({x}, {w.number(1, 4)})")
    size = w.number(1, 3)
    if kind == "lp_pool":
        return w.let(f"F.lp_pool{dims}d({x}, 2, {size})")
    more = f"stride={w.number(1, 2)}, padding={w.number(0, size // 2)}"
    more += f", ceil_mode={w.chance(0.3)}"
    if kind == "avg_pool":
        more += w.one("", ", count_include_pad=False")
    elif w.chance(0.3):
        w.distinct(f"{x}.flatten()", 0)
        return w.let(f"F.max_pool{dims}d({x}, {size}, {more}, return_indices=True)")
    return w.let(f"F.{kind}{dims}d({x}, {size}, {more})")


def interpolate(w: Writer) -> object:
    x = w.floats(4, 4)
    mode = w.one("nearest", "bilinear", "bicubic", "nearest-exact")
    more = f", align_corners={w.chance(0.5)}" if mode.startswith("bi") else ""
    how = w.one("scale_factor=2", "size=(3, 5)", "size=(7, 2)")
    return w.let(f"F.interpolate({x}, {how}, mode='{mode}'{more})")


# Arithmetic.


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
    return w.let(text.format(x))


def rounded(w: Writer) -> object:
    x = w.floats()
    op = w.one("round", "floor", "ceil", "trunc", "sign", "frac")
    w.apart(f"({x} * 2).frac()", "0.0")
    w.apart(f"({x} * 2).frac().abs()", "1.0")
    return w.let(f"{x}.{op}()")


def binary(w: Writer) -> object:
    x = w.tensor(lambda value: value.dtype != torch.bool)
    y = _operand(w, x)
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
    x = w.tensor(lambda value: _fits(value.shape, w.values[mask].shape))
    y = _operand(w, x)
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


# Products.


def product(w: Writer) -> object:
    x = w.floats(1, 4)
    value = w.values[x]
    y = w.tensor(lambda other: other.dtype == value.dtype and other.dim() > 0)
    text = w.one(
        *(
            "{x} @ {y}",
            "{x} @ {x}.transpose(-1, -2)",
            "{x}.transpose(-1, -2) @ {x}",
            "{x} @ {y}.mT",
        ),
        *(
            "torch.bmm({x}, {y})",
            "torch.einsum('...i,...j->...ij', {x}, {y})",
            "torch.outer({x}, {y})",
        ),
        *("torch.einsum('...ij,...kj->...ik', {x}, {y})", "torch.einsum('ij,kj->ki', {x}, {y})"),
        *(
            "torch.einsum('bij->bji', {x})",
            "torch.einsum('bij->b', {x})",
            "torch.einsum('ii->i', {x})",
        ),
        *(
            "torch.tensordot({x}, {y}, dims=1)",
            "torch.kron({x}, {y})",
            "torch.einsum('bid,bjd->bij', {x}, {x})",
        ),
        *("torch.baddbmm({x} @ {y}, {x}, {y}, beta=0.5, alpha=2)", "F.linear({x}, {y})"),
        *("torch.addmm({x} @ {y}, {x}, {y}, alpha=0.5)", "torch.einsum('i,i->', {x}, {y})"),
        *("F.cosine_similarity({x}, {y} + 0.1, dim=-1)", "torch.dot({x}, {y})"),
    )
    return w.let(text.format(x=x, y=y))


# Reductions.


def reduction(w: Writer) -> object:
    x = w.floats()
    dim, keep = _some_dims(w, x), w.chance(0.5)
    text = w.one(
        *("{x}.sum({d}, keepdim={k})", "{x}.mean({d}, keepdim={k})", "{x}.amax({d}, keepdim={k})"),
        *(
            "{x}.amin({d}, keepdim={k})",
            "{x}.var({d}, keepdim={k})",
            "{x}.logsumexp({d}, keepdim={k})",
        ),
        *("{x}.norm(dim={d}, keepdim={k})", "{x}.var({d}, correction=0, keepdim={k})", "{x}.sum()"),
        *(
            "{x}.mean()",
            "{x}.amax()",
            "{x}.std({d}, correction=0, keepdim={k}) + 1",
            "{x}.norm(p=1)",
        ),
        *("torch.var_mean({x}, {d}, correction=0)", "torch.linalg.vector_norm({x}, 3, {d})"),
    )
    return w.let(text.format(x=x, d=dim, k=keep))


def _some_dims(w: Writer, x: str) -> str:
    count = _dims_of(w, x)
    if count > 1 and w.chance(0.4):
        return str(tuple(sorted(w.random.sample(range(count), 2))))
    return str(w.dim(x))


def along(w: Writer) -> object:
    x = w.floats()
    dim = w.dim(x)
    text = w.one(
        *(
            "{x}.softmax({d})",
            "{x}.log_softmax({d})",
            "{x}.cumsum({d})",
            "({x}.sin()).cumprod({d})",
        ),
        *(
            "F.normalize({x}, dim={d})",
            "{x}.logcumsumexp({d})",
            "F.glu({x}, {d})",
            "{x}.diff(dim={d})",
        ),
        *("{x} - {x}.mean({d}, keepdim=True)", "{x} / ({x}.abs().amax({d}, keepdim=True) + 1)"),
        *("{x}.prod({d})", "torch.trapezoid({x}, dim={d})", "F.softmin({x}, {d})"),
    )
    return w.let(text.format(x=x, d=dim))


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


def whole_reduction(w: Writer) -> object:
    x = w.integers()
    dim = w.dim(x)
    text = w.one(
        *(
            "{x}.sum({d})",
            "{x}.sum()",
            "{x}.cumsum({d})",
            "{x}.amax({d})",
            "{x}.any({d})",
            "{x}.all()",
        ),
        *(
            "{x}.count_nonzero({d})",
            "{x}.sum({d}, keepdim=True)",
            "({x} % 3).prod({d})",
            "{x}.max()",
        ),
        *(
            "{x}.amin({d}, keepdim=True)",
            "{x}.sum({d}, dtype=torch.int32)",
            "{x}.sort({d}, stable=True)",
        ),
        *("{x}.argmax({d})", "{x}.argmin()", "{x}.cumsum({d}, dtype=torch.float32)"),
        *("F.one_hot({x}.to(torch.int64) % 5, 5)", "{x}.float().mean({d})", "{x}.min({d})[0]"),
    )
    return w.let(text.format(x=x, d=dim))


def loss(w: Writer) -> object:
    x = w.floats(2, 2)
    y = w.floats(2, 2)
    text = w.one(
        *(
            "F.mse_loss({x}, {y})",
            "F.l1_loss({x}, {y})",
            "F.smooth_l1_loss({x}, {y}, reduction='sum')",
        ),
        *(
            "F.kl_div({x}.log_softmax(-1), {x}.softmax(-1), reduction='batchmean')",
            "F.huber_loss({x}, {y})",
        ),
        "F.cross_entropy({x}, torch.arange({x}.shape[0]) % {x}.shape[1])",
        *(
            "F.binary_cross_entropy_with_logits({x}, {y}.sigmoid())",
            "F.pairwise_distance({x}, {y} + 1)",
        ),
    )
    return w.let(text.format(x=x, y=y))


# Shapes.


def shape(w: Writer) -> object:
    x = w.dims(0)
    count = _dims_of(w, x)
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
    return w.let(text.format(x=x, d=dim, c=cut, size=size, i=w.number(0, max(size - 1, 0))))


def sliced(w: Writer) -> object:
    x = w.dims(1)
    return w.let(f"{x}[{_slices(w, x)}]")


def _slices(w: Writer, x: str) -> str:
    made = []
    for size in w.values[x].shape[: w.number(1, _dims_of(w, x))]:
        low, high = sorted((w.number(0, size), w.number(0, size)))
        index = w.number(-size, size - 1) if size else 0
        made.append(w.one(":", f"{low}:", f":{high}", f"{low}:{high}", f"::{w.number(1, 3)}"))
        made[-1] = str(w.one(made[-1], made[-1], made[-1], index, f"-{size // 2 + 1}:", "None"))
    return ", ".join([*(["..."] if w.chance(0.15) else []), *made])


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
    return w.let(text.format(x=x, grid=grid))


# Indices.


def indexed(w: Writer) -> object:
    x = w.dims(1)
    sizes = w.values[x].shape
    first = _index(w, sizes[0])
    dim = w.dim(x)
    kind = w.number(0, 6)
    if kind == 0:
        return w.let(f"{x}[{first}]")
    if kind == 1 and len(sizes) > 1:
        return w.let(f"{x}[:, {_index(w, sizes[1])}]")
    if kind == 2 and len(sizes) > 1:
        length = w.number(1, 4)
        shape = w.one("", "[:, None]")
        return w.let(f"{x}[{_index(w, sizes[0], length)}{shape}, {_index(w, sizes[1], length)}]")
    if kind == 3 and len(sizes) > 2:
        return w.let(f"{x}[{_index(w, sizes[0], 3)}, :, {_index(w, sizes[2], 3)}]")
    if kind == 4:
        return w.let(f"{x}[..., {_index(w, sizes[-1])}, None]")
    return w.let(f"{x}.index_select({dim}, {_index(w, sizes[dim], ordered=True)})")


def gathered(w: Writer) -> object:
    x = w.dims(1)
    dim = w.dim(x)
    size = w.values[x].shape[dim]
    if not size:
        raise RefusedError("nothing to gather")
    index = w.tensor(lambda value: is_integer(value) and value.dim() == _dims_of(w, x))
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
    unique, some = _permutation(w, size, length), _index(w, size, length, ordered=True)
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
    some = _index(w, size, length, ordered=True)
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
    unique = _permutation(w, size, length)
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


# Assignments.


def assignment(w: Writer) -> object:
    name = w.own() if w.chance(0.5) else w.let(f"{w.dims(1)}.clone()")
    if not _dims_of(w, name):
        raise RefusedError("no dims")
    place = f"{name}[{_slices(w, name)}]"
    target = w.evaluate(place)
    try:
        source = w.tensor(lambda y: _fits(y.shape, target.shape) and y.dim() <= target.dim())
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
    kind = _layer_dtype(w.values[x])
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


_LAYERS: tuple[Step, ...] = (
    *(linear, perceptron, convolution1d, convolution2d, norm, batch_norm, group_norm, embedding),
    *(bag, attention_layer, attention, attention_by_hand, recurrent, pooling, interpolate),
)
_NUMBERS: tuple[Step, ...] = (
    *(unary, unary, rounded, binary, binary, division, ternary, whole, comparison, logic, choice),
    *(choice, cast, cast, product, product, reduction, reduction, along, ordered, whole_reduction),
    *(loss, constant, scalar_of),
)
_PLACES: tuple[Step, ...] = (
    *(shape, shape, shape, joined, parts, sliced, sliced, triangle, padded, image, indexed),
    *(indexed, gathered, gathered_in_order, scattered, scattered, put, searched, assignment),
    *(assignment, in_place, in_place, mesh, rotated, gated_experts),
)
STEPS: tuple[Step, ...] = (*_LAYERS, *_NUMBERS, *_PLACES)
