"""Experts of a language model as transformers has them, with small weights or without."""

from __future__ import annotations

from typing import Any

import torch
from decoder_blocks import Norm
from torch import Tensor, nn

from aoti_plugins.language.experts import quantize_experts

WIDTH, INNER, EXPERTS, CHOSEN, GROUP = 256, 512, 6, 2, 32


class Experts(nn.Module):
    """Adds what the chosen experts make of ``x [1, tokens, WIDTH]``; a router chooses."""

    def __init__(
        self,
        bits: int | None = 4,
        implementation: str = "batched_mm",
        dtype: torch.dtype = torch.bfloat16,
        group: int = GROUP,
        **changes: Any,
    ) -> None:
        from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

        super().__init__()
        sizes = {
            "hidden_size": WIDTH,
            "moe_intermediate_size": INNER,
            "num_experts": EXPERTS,
            "num_experts_per_tok": CHOSEN,
        }
        torch.manual_seed(0)
        model = Qwen3MoeForCausalLM(
            Qwen3MoeConfig(
                **{**sizes, **changes},
                num_hidden_layers=1,
                num_attention_heads=2,
                num_key_value_heads=2,
                head_dim=32,
                vocab_size=64,
            )
        ).eval()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.05)
        model.to(dtype)
        if bits is not None:
            quantize_experts(model, {4: torch.int4, 8: torch.int8}[bits], group)
        model.set_experts_implementation(implementation)
        self.mlp = model.model.layers[0].mlp

    def forward(self, x: Tensor) -> Tensor:
        """The same sizes."""
        return x + self.mlp(x)

    def exact(self, x: Tensor) -> Tensor:
        """The result in float64, for the experts that eager chooses."""
        _, shares, experts = self.mlp.gate(x.reshape(-1, x.size(-1)))
        found = exact_sums(self.mlp.experts, x.reshape(-1, x.size(-1)), experts, shares)
        return x.double() + found.reshape(x.shape)


class Given(nn.Module):
    """The same for experts that are inputs: those of a router may be others where two are near."""

    def __init__(self, bits: int | None = 4, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.experts = Experts(bits, dtype=dtype).mlp.experts

    def forward(self, x: Tensor, experts: Tensor, shares: Tensor) -> Tensor:
        """``x [tokens, WIDTH]``, ``experts`` and ``shares [tokens, CHOSEN]`` to ``x``'s sizes."""
        return x + self.experts(x, experts, shares)

    def exact(self, x: Tensor, experts: Tensor, shares: Tensor) -> Tensor:
        """The result in float64."""
        return x.double() + exact_sums(self.experts, x, experts, shares)


class Normed(nn.Module):
    """The second half of a layer: a norm, a router and experts; ``more`` is added."""

    def __init__(self, bits: int = 4) -> None:
        super().__init__()
        self.experts = Experts(bits).mlp
        self.norm = Norm(inside=False, width=WIDTH).bfloat16()

    def forward(self, x: Tensor, more: Tensor) -> Tensor:
        """``x [1, tokens, WIDTH]`` to its sizes."""
        return x + self.experts(self.norm(x)) + more

    def margin(self, x: Tensor) -> float:
        """How far the last chosen expert's score is from that of the next one."""
        scores = nn.functional.linear(self.norm(x), self.experts.gate.weight).float()
        first, second = scores.flatten().sort(descending=True).values[CHOSEN - 1 : CHOSEN + 1]
        return (first - second).item()


class Fused(nn.Module):
    """Experts as ExecuTorch's CUDA backend has them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        torch.manual_seed(1)
        for weight, columns, k in (("first", 2 * INNER, WIDTH), ("second", WIDTH, INNER)):
            codes = torch.randint(-128, 128, (EXPERTS, columns, k // 2), dtype=torch.int8)
            scale = torch.rand(EXPERTS, columns, k // GROUP) * k**-0.5
            self.register_buffer(weight, codes)
            self.register_buffer(f"{weight}_scale", scale.bfloat16())
        # It defines the ops.
        import executorch.backends.cuda.triton.kernels.fused_moe  # noqa: F401

        self.op = getattr(torch.ops.triton, name).default

    def forward(self, x: Tensor, experts: Tensor, shares: Tensor) -> Tensor:
        weights = (self.first, self.first_scale, self.second, self.second_scale)
        return x + self.op(x, *weights, shares, experts, CHOSEN, EXPERTS, GROUP)

    def exact(self, x: Tensor, experts: Tensor, shares: Tensor) -> Tensor:
        """The result in float64."""
        matrices = nn.Module()
        for to, name in (("gate_up_proj", "first"), ("down_proj", "second")):
            packed = getattr(self, name).view(torch.uint8).int()
            codes = torch.stack((packed & 15, packed >> 4), -1).flatten(2) - 8
            groups = codes.double().unflatten(-1, (-1, GROUP))
            scale = getattr(self, f"{name}_scale").double()
            matrices.register_buffer(to, (groups * scale[..., None]).flatten(2))
        return x.double() + exact_sums(matrices, x, experts, shares)


def exact_sums(experts: nn.Module, rows: Tensor, numbers: Tensor, shares: Tensor) -> Tensor:
    """What experts make of ``rows [tokens, WIDTH]``, in float64."""
    both, down = (getattr(experts, name).double() for name in ("gate_up_proj", "down_proj"))
    result = torch.zeros(rows.shape, dtype=torch.float64)
    for row in range(len(rows)):
        for share, number in zip(shares[row], numbers[row], strict=True):
            gate, up = (both[number] @ rows[row].double()).chunk(2)
            result[row] += share.double() * (down[number] @ (nn.functional.silu(gate) * up))
    return result
