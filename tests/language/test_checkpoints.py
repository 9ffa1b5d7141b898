"""What is known of a checkpoint before its weights are read."""

from __future__ import annotations

import pytest
import torch
from tiny_checkpoints import config

from aoti_plugins.errors import CheckpointError
from aoti_plugins.language import export_decoder, kept_matrices, quantised_layers, quantize
from aoti_plugins.language.architecture import positions
from aoti_plugins.lowering.inductor.versions import torch_version

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:(torch|transformers)"),
]


def test_positions_end_where_longrope_turns_all_keys() -> None:
    changed = config("phi3")
    assert positions(changed) == 128
    changed.rope_parameters = {
        **changed.rope_parameters,
        "rope_type": "longrope",
        "original_max_position_embeddings": 64,
    }
    assert positions(changed) == 64


def test_a_state_has_no_length() -> None:
    assert positions(config("mamba")) > 10**9


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("qwen3_moe", {"model.layers.*.mlp.gate.weight": 2 * 4 * 64 * 4}),
        ("phi", {}),
    ],
)
def test_matrices_that_stay_as_they_are(kind: str, expected: dict[str, int]) -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config(kind))
    assert {"lm_head", "model.embed_tokens"} < set(quantised_layers(model))
    quantize(model, "int4", 32)
    assert kept_matrices(model) == expected


def test_a_model_that_asks_how_long_the_text_is() -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config("opt")).eval()
    # Older versions refuse to export it, and say where in the model's code.
    newer = torch_version() >= (2, 13)
    why = (
        "OPTForCausalLM makes tensors as long as the text" if newer else "torch.export cannot take"
    )
    with pytest.raises(CheckpointError, match=why):
        export_decoder(model, 96)


def test_kernels_of_prompts_are_chosen_for_prompts() -> None:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config("llama")).eval()
    for most, example in ((4, 3), (96, 47), (2048, 509)):
        methods = export_decoder(model, most, "prefill-decode")
        tokens = next(one for one in methods["prefill"].graph.nodes if one.name == "tokens")
        assert tokens.meta["val"].shape[1].node.hint == example


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rows_of_zeros_and_of_tiny_numbers_as_floats_of_8_bits(dtype: torch.dtype) -> None:
    """torchao divides such rows by a scale of 0."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_config(config("llama")).to(dtype).requires_grad_(False)
    weight = model.lm_head.weight
    weight[0], weight[1], weight[2] = 0, 1e-5, 3 * torch.finfo(dtype).smallest_normal
    before = weight.double()
    quantize(model, "fp8", 32)
    after = model.lm_head.weight.dequantize().double()
    assert not after[0].any()
    torch.testing.assert_close(after[1], before[1], rtol=0.07, atol=0)
    torch.testing.assert_close(after[2], before[2], rtol=0.07, atol=2e-3 * before[2].max().item())
    torch.testing.assert_close(after[3:], before[3:], rtol=0.07, atol=1e-2)
