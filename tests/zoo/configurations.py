"""Small configurations of transformers' architectures, one line of values for each.

Each is the class's first name and what it needs beside the values that its kind shares; experts
compute with the code that transformers chooses for them.
"""

from __future__ import annotations

from typing import Any

Configurations = dict[str, tuple[str, dict[str, Any]]]

_GROUPED = {"num_key_value_heads": 2, "use_cache": False}
_CHOICE = {**_GROUPED, "num_experts": 4, "num_experts_per_tok": 2}
_LOCAL_CHOICE = {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}
_ROUTED = {
    **_GROUPED,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}
_LATENT = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8}
_MIXERS = {"mamba_d_state": 8, "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_expand": 2}
_PADDED = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

EXPERTS: Configurations = {
    "qwen2_moe": (
        "Qwen2Moe",
        {**_CHOICE, "moe_intermediate_size": 32, "shared_expert_intermediate_size": 32},
    ),
    "gpt_oss": ("GptOss", {**_LOCAL_CHOICE, "head_dim": 16, "sliding_window": 8}),
    "granitemoe": ("GraniteMoe", _LOCAL_CHOICE),
    "granitemoeshared": ("GraniteMoeShared", {**_LOCAL_CHOICE, "shared_intermediate_size": 32}),
    "granitemoehybrid": (
        "GraniteMoeHybrid",
        {
            **_LOCAL_CHOICE,
            **_MIXERS,
            "shared_intermediate_size": 32,
            "layer_types": ["mamba", "attention"],
        },
    ),
    "olmoe": ("Olmoe", _CHOICE),
    "flex_olmo": ("FlexOlmo", {**_CHOICE, **_PADDED}),
    "phimoe": ("Phimoe", {**_LOCAL_CHOICE, "sliding_window": None}),
    "jamba": (
        "Jamba",
        {
            **_CHOICE,
            "attn_layer_period": 2,
            "attn_layer_offset": 1,
            "expert_layer_period": 2,
            "expert_layer_offset": 1,
            "mamba_d_state": 8,
            "mamba_dt_rank": 4,
            "use_mamba_kernels": False,
        },
    ),
    "ernie4_5_moe": (
        "Ernie4_5_Moe",
        {
            **_GROUPED,
            "moe_num_experts": 4,
            "moe_k": 2,
            "moe_num_shared_experts": 1,
            "moe_intermediate_size": 32,
            "moe_layer_start_index": 1,
            "moe_layer_end_index": -1,
        },
    ),
    "glm4_moe": (
        "Glm4Moe",
        {**_ROUTED, "head_dim": 16, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1},
    ),
    "hunyuan_v1_moe": (
        "HunYuanMoEV1",
        {**_GROUPED, "num_experts": 4, "moe_topk": 2, "head_dim": 16, "pad_token_id": 0},
    ),
    "minimax": (
        "MiniMax",
        {
            **_LOCAL_CHOICE,
            "head_dim": 16,
            "block_size": 8,
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
    "dots1": (
        "Dots1",
        {**_ROUTED, "n_shared_experts": 1, "n_group": 2, "topk_group": 1}
        | {"first_k_dense_replace": 1, "head_dim": 16},
    ),
    "deepseek_v2": (
        "DeepseekV2",
        {
            **_ROUTED,
            **_LATENT,
            "num_key_value_heads": 4,
            "v_head_dim": 16,
            "n_group": 2,
            "topk_group": 1,
            "topk_method": "greedy",
            "first_k_dense_replace": 1,
        },
    ),
    "aria_text": (
        "AriaText",
        {**_GROUPED, "moe_num_experts": 4, "moe_topk": 2, "moe_num_shared_experts": 1, **_PADDED},
    ),
    "llama4_text": (
        "Llama4Text",
        {
            **_LOCAL_CHOICE,
            "head_dim": 16,
            "intermediate_size_mlp": 128,
            "num_experts_per_tok": 1,
            "interleave_moe_layer_step": 2,
            "attention_chunk_size": 8,
            "pad_token_id": 0,
        },
    ),
    "jetmoe": (
        "JetMoe",
        {**_LOCAL_CHOICE, "kv_channels": 16, "num_key_value_heads": 2},
    ),
    "lfm2_moe": (
        "Lfm2Moe",
        {
            **_CHOICE,
            "moe_intermediate_size": 32,
            "num_dense_layers": 1,
            "layer_types": ["conv", "full_attention"],
            "pad_token_id": 0,
        },
    ),
    "qwen3_next": (
        "Qwen3Next",
        {
            **_CHOICE,
            "head_dim": 16,
            "moe_intermediate_size": 32,
            "shared_expert_intermediate_size": 32,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "layer_types": ["linear_attention", "full_attention"],
        },
    ),
}
"""Decoders with experts, called with a whole sequence."""

TEXT: Configurations = {
    "gemma": ("Gemma", {**_GROUPED, "head_dim": 16}),
    "gemma3_text": ("Gemma3Text", {**_GROUPED, "head_dim": 16, "sliding_window": 8}),
    "cohere2": ("Cohere2", {**_GROUPED, **_PADDED, "sliding_window": 8}),
    "starcoder2": ("Starcoder2", {**_GROUPED, **_PADDED}),
    "stablelm": ("StableLm", {**_GROUPED, **_PADDED}),
    "phi": ("Phi", {**_GROUPED, "num_key_value_heads": 4, **_PADDED}),
    "gptj": (
        "GPTJ",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 8, **_PADDED},
    ),
    "gpt_neo": (
        "GPTNeo",
        {
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 8,
            **_PADDED,
        },
    ),
    "gpt_bigcode": (
        "GPTBigCode",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, **_PADDED},
    ),
    "codegen": (
        "CodeGen",
        {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "rotary_dim": 8, **_PADDED},
    ),
    "bloom": ("Bloom", {"n_layer": 2, "n_head": 4, **_PADDED}),
    "falcon": ("Falcon", _PADDED),
    "mpt": ("Mpt", {"d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 64, **_PADDED}),
    "persimmon": ("Persimmon", _PADDED),
    "granite": ("Granite", {**_GROUPED, **_PADDED}),
    "glm4": ("Glm4", {**_GROUPED, "head_dim": 16, **_PADDED}),
    "olmo3": ("Olmo3", {**_GROUPED, **_PADDED, "sliding_window": 8}),
    "nemotron": ("Nemotron", {**_GROUPED, **_PADDED}),
    "exaone4": ("Exaone4", {**_GROUPED, **_PADDED, "sliding_window": 8}),
    "smollm3": ("SmolLM3", {**_GROUPED, **_PADDED}),
    "helium": ("Helium", {**_GROUPED, "head_dim": 16, **_PADDED}),
    "apertus": ("Apertus", {**_GROUPED, **_PADDED}),
    "diffllama": ("DiffLlama", {**_GROUPED, **_PADDED}),
    "lfm2": ("Lfm2", {**_GROUPED, "layer_types": ["conv", "full_attention"], **_PADDED}),
    "mamba": ("Mamba", {"state_size": 8, "use_cache": False, **_PADDED}),
    "mamba2": (
        "Mamba2",
        {"state_size": 8, "num_heads": 4, "head_dim": 32, "n_groups": 2, "chunk_size": 8}
        | {"use_cache": False, **_PADDED},
    ),
    "recurrent_gemma": (
        "RecurrentGemma",
        {"num_hidden_layers": 3, "lru_width": 64, "attention_window_size": 8, **_GROUPED} | _PADDED,
    ),
    "xglm": (
        "XGLM",
        {"d_model": 64, "num_layers": 2, "attention_heads": 4, "ffn_dim": 128, "use_cache": False}
        | _PADDED,
    ),
    "biogpt": ("BioGpt", {"use_cache": False, **_PADDED}),
    "camembert": ("Camembert", {"max_position_embeddings": 66}),
    "xlm_roberta": ("XLMRoberta", {"max_position_embeddings": 66}),
    "ernie": ("Ernie", {}),
    "mobilebert": (
        "MobileBert",
        {"embedding_size": 32, "intra_bottleneck_size": 64, "true_hidden_size": 64},
    ),
    "squeezebert": ("SqueezeBert", {"embedding_size": 64}),
    "convbert": ("ConvBert", {"embedding_size": 32}),
    "deberta": ("Deberta", {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}),
    "rembert": ("RemBert", {"input_embedding_size": 32, "output_embedding_size": 32}),
    "roformer": ("RoFormer", {"embedding_size": 64}),
    "splinter": ("Splinter", {}),
    "esm": ("Esm", {"position_embedding_type": "rotary", **_PADDED}),
}
"""Encoders and decoders without experts, called with a whole sequence and its mask."""

ENCODER_DECODERS: Configurations = {
    "longt5": (
        "LongT5",
        {"d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4, "local_radius": 4},
    ),
    "mbart": ("MBart", {"max_position_embeddings": 64}),
    "pegasus": ("Pegasus", {"max_position_embeddings": 64}),
    "marian": (
        "Marian",
        {"max_position_embeddings": 64, "pad_token_id": 0, "decoder_start_token_id": 0},
    ),
    "m2m_100": ("M2M100", {"max_position_embeddings": 64}),
    "blenderbot": ("Blenderbot", {"max_position_embeddings": 64}),
    "mt5": ("MT5", {"d_kv": 16, "d_ff": 128, "num_layers": 2, "num_heads": 4}),
}
"""Called with two sequences and their masks."""

IMAGES: Configurations = {
    "deit": ("DeiT", {}),
    "vit_msn": ("ViTMSN", {}),
    "yolos": ("Yolos", {"image_size": [64, 64], "num_detection_tokens": 4}),
    "dinov2_with_registers": ("Dinov2WithRegisters", {}),
    "dinov3_vit": ("DINOv3ViT", {"num_register_tokens": 4}),
    "ijepa": ("IJepa", {}),
    "data2vec_vision": ("Data2VecVision", {"use_relative_position_bias": True}),
    "resnet": ("ResNet", {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1]}),
    "mobilenet_v2": ("MobileNetV2", {"depth_multiplier": 0.35}),
    "poolformer": (
        "PoolFormer",
        {"hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 1, 1]},
    ),
    "pvt_v2": (
        "PvtV2",
        {"hidden_sizes": [16, 24, 32, 48], "depths": [1, 1, 1, 1]}
        | {"num_attention_heads": [1, 2, 2, 4]},
    ),
    "focalnet": ("FocalNet", {"embed_dim": 16, "depths": [1, 1], "hidden_sizes": [16, 32]}),
}
"""Called with images."""

SPEECH: Configurations = {
    "unispeech": ("UniSpeech", {}),
    "data2vec_audio": ("Data2VecAudio", {}),
    "sew": ("SEW", {"squeeze_factor": 2}),
    "wav2vec2_conformer": (
        "Wav2Vec2Conformer",
        {"position_embeddings_type": "relative", "max_source_positions": 128},
    ),
}
"""Called with sound."""
