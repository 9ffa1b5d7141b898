"""Operators of PyTorch's list that no program for inference can reach, and why."""

from __future__ import annotations

_GENERATOR = "takes a generator, an object of the process; torch.export takes none as an input"
_SPARSE = "makes a sparse tensor, which neither AOTInductor nor ExecuTorch has"
_TRAINING = "observes values to choose scales while a model is trained for quantization"
_ARM_PACKING = (
    "packs for the machine that packs (KleidiAI on Arm): what one machine packs another cannot read"
)
_INTEL = "for Intel GPUs; PyTorch has no such kernel for CPUs, NVIDIA or Apple GPUs"
_WRITES_AND_RETURNS = (
    "writes into an argument and returns it: PyTorch itself refuses to make that functional, as an "
    "exported program must be"
)
_QUANTIZED_FLASH = "FlashAttention 3 in float8, which PyTorch's own packages are not built with"

_REASONS = {
    "aten._dyn_quant_matmul_4bit.default": _ARM_PACKING,
    "aten._dyn_quant_pack_4bit_weight.default": _ARM_PACKING,
    "aten._efficientzerotensor.default": "a tangent of forward-mode differentiation",
    "aten._flash_attention_forward.quantized": _QUANTIZED_FLASH,
    "aten._scaled_dot_product_flash_attention.quantized": _QUANTIZED_FLASH,
    "aten._flash_attention_forward_no_dropout_inplace.default": _WRITES_AND_RETURNS,
    "aten._weight_int4pack_mm_with_scales_and_zeros.default": _INTEL,
    "aten._fused_moving_avg_obs_fq_helper.default": _TRAINING,
    "aten._fused_moving_avg_obs_fq_helper_functional.default": _TRAINING,
    "aten._to_sparse.default": _SPARSE,
    "aten.to_sparse.default": _SPARSE,
    "aten.rand.generator": _GENERATOR,
    "aten.rand_like.generator": _GENERATOR,
    "aten.randint.generator": _GENERATOR,
    "aten.randn.generator": _GENERATOR,
    "aten.randn_like.generator": _GENERATOR,
}


def why_left_out(op: str) -> str:
    """Why inference cannot reach an operator; empty if it can."""
    return "a gradient" if "_backward" in op else _REASONS.get(op, "")
