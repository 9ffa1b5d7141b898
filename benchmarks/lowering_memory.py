"""Memory and time of exporting a Llama with random weights, in the sizes of real ones.

The checkpoint is made in a folder, a layer at a time, then ``aoti-plugins export`` runs on it with
caches of its own. Memory is the most that the process had of its own (anonymous pages): not pages
of files that are mapped, such as the checkpoint, which the system drops when it needs room. An
8 B model needs 32 GB of disk for the time of the run.

    python benchmarks/lowering_memory.py --size 8b --device cuda --target h200
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environment
import torch
from safetensors.torch import save_file

RESULTS = Path(__file__).parent / "results" / "lowering_memory.json"
_GIB = 2**30


@dataclass(frozen=True)
class Sizes:
    """Of a Llama."""

    layers: int
    width: int
    hidden: int
    heads: int
    kv_heads: int
    vocabulary: int


SIZES = {
    "tiny": Sizes(2, 64, 128, 4, 2, 128),
    "1b": Sizes(16, 2048, 8192, 32, 8, 128_256),
    "8b": Sizes(32, 4096, 14_336, 32, 8, 128_256),
}


def write_checkpoint(sizes: Sizes, folder: Path) -> int:
    """A folder as transformers writes it, bfloat16; returns the bytes of the weights."""
    width, kv_width = sizes.width, sizes.width // sizes.heads * sizes.kv_heads
    shapes: dict[str, dict[str, tuple[int, ...]]] = {
        "embedding": {"model.embed_tokens.weight": (sizes.vocabulary, width)},
        "head": {"lm_head.weight": (sizes.vocabulary, width), "model.norm.weight": (width,)},
    }
    for layer in range(sizes.layers):
        prefix = f"model.layers.{layer}."
        shapes[f"layer_{layer}"] = {
            f"{prefix}self_attn.q_proj.weight": (width, width),
            f"{prefix}self_attn.k_proj.weight": (kv_width, width),
            f"{prefix}self_attn.v_proj.weight": (kv_width, width),
            f"{prefix}self_attn.o_proj.weight": (width, width),
            f"{prefix}mlp.gate_proj.weight": (sizes.hidden, width),
            f"{prefix}mlp.up_proj.weight": (sizes.hidden, width),
            f"{prefix}mlp.down_proj.weight": (width, sizes.hidden),
            f"{prefix}input_layernorm.weight": (width,),
            f"{prefix}post_attention_layernorm.weight": (width,),
        }
    nbytes, places = 0, {}
    for name, tensors in shapes.items():
        made = {key: torch.empty(shape, dtype=torch.bfloat16) for key, shape in tensors.items()}
        for tensor in made.values():
            tensor.normal_(std=0.02)
            nbytes += tensor.nbytes
        save_file(made, folder / f"{name}.safetensors", {"format": "pt"})
        places |= dict.fromkeys(made, f"{name}.safetensors")
    index = {"metadata": {"total_size": nbytes}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    _write_configuration(sizes, folder)
    return nbytes


def _write_configuration(sizes: Sizes, folder: Path) -> None:
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, PreTrainedTokenizerFast

    LlamaConfig(
        architectures=["LlamaForCausalLM"],
        hidden_size=sizes.width,
        intermediate_size=sizes.hidden,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        vocab_size=sizes.vocabulary,
        max_position_embeddings=8192,
        dtype="bfloat16",
    ).save_pretrained(folder)
    words = {f"word{index}": index for index in range(100)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="word0"))
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def watch(command: Sequence[str], caches: Path) -> dict[str, Any]:
    """Run a command; its time, and the most memory of its own that it had."""
    variables = {
        "AOTI_PLUGINS_CACHE_DIR": str(caches / "aoti_plugins"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "TRITON_CACHE_DIR": str(caches / "triton"),
    }
    start, most = time.perf_counter(), 0
    with subprocess.Popen(command, env={**os.environ, **variables}) as process:
        while process.poll() is None:
            most = max(most, _own_nbytes(process.pid))
            time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed with exit status {process.returncode}")
    return {"seconds": time.perf_counter() - start, "own_nbytes": most}


def _own_nbytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has just ended
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="8b")
    parser.add_argument("--device", choices=("cpu", "cuda", "mps"), default="cuda")
    parser.add_argument("--target", help="of the device")
    parser.add_argument("--quantize", default="none", help="as aoti-plugins export has it")
    parser.add_argument("--folder", type=Path, help="for the checkpoint and the program")
    parser.add_argument("--output", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        folder = Path(name)
        checkpoint, program = folder / "checkpoint", folder / "model.pte"
        checkpoint.mkdir()
        weights_nbytes = write_checkpoint(SIZES[chosen.size], checkpoint)
        command = [sys.executable, "-m", "aoti_plugins", "export", str(checkpoint)]
        command += ["-o", str(program), "--device", chosen.device, "--quantize", chosen.quantize]
        command += ["--target", chosen.target] if chosen.target else []
        command += ["--max-length", "1024" if chosen.size != "tiny" else "64"]
        found = watch(command, folder / "caches")
        found |= {"weights_nbytes": weights_nbytes, "program_nbytes": program.stat().st_size}
    settings = {key: getattr(chosen, key) for key in ("size", "device", "target", "quantize")}
    settings["load_average"] = os.getloadavg()[0]
    environment.save(chosen.output, {"settings": settings, **found})
    print(
        f"{found['weights_nbytes'] / _GIB:.2f} GiB of weights: {found['seconds']:.0f} s, "
        f"{found['own_nbytes'] / _GIB:.2f} GiB of memory of its own, "
        f"a program of {found['program_nbytes'] / _GIB:.2f} GiB"
    )


if __name__ == "__main__":
    main()
