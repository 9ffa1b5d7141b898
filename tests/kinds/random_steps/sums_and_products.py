"""Products of matrices, reductions, orders and losses."""

from __future__ import annotations

from random_modules import RefusedError, Writer

from random_steps.operands import BEFORE_2_13, dims_of


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
    is_norm = "norm" in text and "{d}" in text and not (keep and "{k}" in text)
    if BEFORE_2_13 and is_norm and set(w.sizes(x, dim)) <= {1}:
        raise RefusedError("an export has a dim too many")
    if "var" in text or "std" in text:
        w.spread(x, dim)
    elif ".sum(" in text or ".mean(" in text:
        w.remains(x, dim if "{d}" in text else "()")
    return w.let(text.format(x=x, d=dim, k=keep))


def _some_dims(w: Writer, x: str) -> str:
    count = dims_of(w, x)
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
    if "one_hot" in text and not w.values[x].is_contiguous():
        raise RefusedError("eager's result lies in a row, that of an export as its argument does")
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
            "F.kl_div({x}.log_softmax(-1), (0.5 * {x}).softmax(-1), reduction='batchmean')",
            "F.huber_loss({x}, {y})",
        ),
        "F.cross_entropy({x}, torch.arange({x}.shape[0]) % {x}.shape[1])",
        *(
            "F.binary_cross_entropy_with_logits({x}, {y}.sigmoid())",
            "F.pairwise_distance({x}, {y} + 1)",
        ),
    )
    return w.let(text.format(x=x, y=y))
