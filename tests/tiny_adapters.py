"""Adapters that peft makes of the tiny checkpoints, random, and what peft generates with them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

RANK = 4
ADAPTERS: dict[str, dict[str, Any]] = {
    "attention": {"r": RANK, "lora_alpha": 8, "target_modules": ["q_proj", "v_proj"]},
    "all": {"r": 3, "lora_alpha": 5, "target_modules": "all-linear", "use_rslora": True},
    "patterns": {
        **{"r": 2, "lora_alpha": 3, "target_modules": ["v_proj", "down_proj"]},
        **{"rank_pattern": {"layers.1.self_attn.v_proj": 1}, "alpha_pattern": {"down_proj": 6}},
    },
}
"""Arguments of ``LoraConfig``."""


def adapted(checkpoint: Path, name: str, quantize: str = "none") -> Any:
    """A model with an adapter, whose weights are as the quantised ones stand for."""
    import torch
    from peft import LoraConfig, get_peft_model
    from tiny_checkpoints import stand_for_quantised
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype="float32").eval()
    stand_for_quantised(model, quantize)
    with warnings.catch_warnings():  # peft asks transformers for what has another name now
        warnings.simplefilter("ignore", FutureWarning)
        result = get_peft_model(model, LoraConfig(**ADAPTERS[name]))
    torch.manual_seed(len(name))
    for parameter_name, parameter in result.named_parameters():
        if "lora_" in parameter_name:
            torch.nn.init.normal_(parameter, std=0.3)
    return result


def write_adapter(folder: Path, checkpoint: Path, name: str) -> Path:
    """Write an adapter as peft does; returns the folder."""
    adapted(checkpoint, name).save_pretrained(folder)
    return folder


def adapted_tokens(
    checkpoint: Path, name: str, prompt: list[int], count: int, quantize: str = "none"
) -> list[int]:
    """What peft and transformers generate, greedily."""
    import torch

    given = torch.tensor([prompt])
    tokens = adapted(checkpoint, name, quantize).generate(
        input_ids=given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=count,
        do_sample=False,
    )
    found: list[int] = tokens[0, len(prompt) :].tolist()
    return found
