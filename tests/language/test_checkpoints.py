"""What is known of a checkpoint before its weights are read."""

from __future__ import annotations

import pytest
from tiny_checkpoints import config

from aoti_plugins.errors import CheckpointError
from aoti_plugins.language import export_decoder, kept_matrices, quantised_layers, quantize
from aoti_plugins.language.architecture import positions

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
        (
            "qwen3_moe",
            {
                "model.layers.*.mlp.experts.gate_up_proj": 2 * 4 * 64 * 64 * 4,
                "model.layers.*.mlp.experts.down_proj": 2 * 4 * 64 * 32 * 4,
                "model.layers.*.mlp.gate.weight": 2 * 4 * 64 * 4,
            },
        ),
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
    with pytest.raises(CheckpointError, match="OPTForCausalLM makes tensors as long as the text"):
        export_decoder(model, 96)
