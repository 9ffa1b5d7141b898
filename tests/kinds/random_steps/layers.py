"""Layers of torch.nn."""

from __future__ import annotations

from random_modules import RefusedError, Writer

from random_steps.operands import BEFORE_2_13, dims_of, layer_dtype


def linear(w: Writer) -> object:
    x = w.floats(1)
    value = w.values[x]
    text = f"nn.Linear({value.shape[-1]}, {w.number(1, 9)}, bias={w.chance(0.7)}"
    layer = w.layer(f"{text}{layer_dtype(value)})")
    return w.let(f"{layer}({x})")


def perceptron(w: Writer) -> object:
    x = w.floats(1)
    size, hidden = w.values[x].shape[-1], w.number(2, 12)
    kind = layer_dtype(w.values[x])
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
    layer = w.layer(f"{kind}({channels}, {out}, {size}, {more}{layer_dtype(value)})")
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
    layer = w.layer(f"nn.{kind}({shape}{more}{layer_dtype(value)})")
    return w.let(f"{layer}({x})")


def batch_norm(w: Writer) -> object:
    x = w.floats(2, 4)
    value = w.values[x]
    dims = max(value.dim() - 2, 1)
    kind = w.one("BatchNorm", "BatchNorm", "InstanceNorm")
    more = w.one("", ", affine=True", ", affine=False")
    layer = w.layer(f"nn.{kind}{dims}d({value.shape[1]}{more}{layer_dtype(value)})")
    return w.let(f"{layer}({x})")


def group_norm(w: Writer) -> object:
    x = w.floats(2, 4)
    channels = w.values[x].shape[1]
    kind = layer_dtype(w.values[x])
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
    kind = layer_dtype(w.values[x])
    proj = w.layer(f"nn.Linear({w.values[x].shape[-1]}, {heads * size}{kind})")
    layer = w.layer(f"nn.MultiheadAttention({heads * size}, {heads}, batch_first=True{kind})")
    q = w.let(f"{proj}({x})")
    # In eager it has a way of its own, whose result lies otherwise than an exported program's.
    return w.let(f"{layer}({q}, {q}, {q}, need_weights={w.chance(0.3)})[0].contiguous()")


def attention(w: Writer) -> object:
    x = w.floats(3, 4)
    if BEFORE_2_13 and not w.values[x].numel():
        raise RefusedError("attention to nothing")
    k = w.tensor(lambda y: y.shape[-1:] == w.values[x].shape[-1:] and y.dim() == dims_of(w, x))
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
    layer = w.layer(f"nn.{kind}({w.values[x].shape[-1]}, {hidden}{more}{layer_dtype(w.values[x])})")
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
