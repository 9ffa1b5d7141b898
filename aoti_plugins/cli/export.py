"""``aoti-plugins export``."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import click

from aoti_plugins.cli._lowering import chosen_partitioner, lowered, write_program
from aoti_plugins.cli._options import (
    PATH,
    device_option,
    number_option,
    option_defaults,
    parse_options,
    partitioner_for,
)
from aoti_plugins.cli._output import (
    console,
    error_console,
    json_option,
    nbytes_text,
    print_report,
    table,
)
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.compile_specs import decode
from aoti_plugins.destinations import check_destination, is_stream, writing
from aoti_plugins.errors import CheckpointError, needs_extra
from aoti_plugins.generation import chat_template_of, tokenizer_of
from aoti_plugins.lowering.stage_display import StageDisplay
from aoti_plugins.units import seconds_text

_GRAPHS = "cuda_graphs"
_FLOAT8 = "fp8"
_GROUPED = ("int8", "int4")
"""The quantisations with more than one scale in a row."""

_GUESSED_TOKENS = 4
"""Of a draft model, where ``--speculate`` does not say."""


@click.command()
@click.argument("checkpoint", type=PATH)
@click.option("-o", "--output", type=PATH, help="[default: CHECKPOINT.pte]")
@device_option
@click.option("--target", help="What of the device to lower for, such as h100 or x86_64-v3.")
@click.option(
    "--quantize",
    "kind",
    type=click.Choice(["none", "fp8", "int8", "int4"]),
    default="none",
    show_default=True,
    help="Bits of the weights of products and of the embedding; one that is both is stored once. "
    "fp8 is for GPUs of compute capability 8.9 or newer, and single tokens are fast with "
    "--method-style prefill-decode alone; CPUs have no kernel for it.",
)
@number_option(
    "--group-size",
    least=1,
    default=128,
    help="How many weights in a row have one scale; of fp8 all.",
)
@click.option(
    "--dtype",
    type=click.Choice(["auto", "float32", "bfloat16", "float16"]),
    default="auto",
    show_default=True,
    help="Dtype of weights and activations; auto is the checkpoint's.",
)
@click.option(
    "--max-length",
    type=click.IntRange(min=4),
    help="The most tokens of a prompt and its answer.  [default: the model's, at most 2048]",
)
@click.option(
    "--method-style",
    type=click.Choice(["forward", "prefill-decode"]),
    default="forward",
    show_default=True,
    help="One method for any number of tokens, or a second one for single tokens.",
)
@number_option(
    "--speculate",
    most=64,
    default=0,
    help="The most tokens that are looked up in the text and checked in one call.",
)
@click.option(
    "--draft",
    type=PATH,
    help="A smaller model with the same tokens, which guesses what is checked (--speculate, then 4 "
    "by default).",
)
@click.option(
    "--sample-on-device",
    is_flag=True,
    help="Choose tokens in the program, so that no logits are copied from the device.",
)
@number_option(
    "--lora-rank",
    default=0,
    help="The largest rank of adapters (LoRA) that the program takes; 0 for none.",
)
@click.option(
    "--lora-targets",
    metavar="NAME,NAME",
    help="Layers that take adapters, such as q_proj,v_proj.  [default: all linear ones but the "
    "last]",
)
@number_option(
    "--tensor-parallel",
    "num_ranks",
    least=1,
    most=64,
    default=1,
    help="Processes that run the model together, each with its part of the weights: start them "
    "with torchrun --nproc-per-node N -m aoti_plugins.",
)
@click.option(
    "--option",
    "option_texts",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the device's partitioner, as for lower; may be repeated. For cuda "
    "cuda_graphs is true unless it is given.",
)
@click.option(
    "--external-weights", is_flag=True, help="Put the weights into a .ptd file next to the program."
)
@json_option
def command(
    checkpoint: Path,
    output: Path | None,
    device: str,
    target: str | None,
    kind: str,
    group_size: int,
    dtype: str,
    max_length: int | None,
    method_style: str,
    speculate: int,
    draft: Path | None,
    sample_on_device: bool,
    lora_rank: int,
    lora_targets: str | None,
    num_ranks: int,
    option_texts: tuple[str, ...],
    external_weights: bool,
    as_json: bool,
) -> None:
    """Turn a language model of transformers into a program (.pte) that generates text.

    CHECKPOINT is a folder with config.json, safetensors and tokenizer.json, of Whisper also with
    preprocessor_config.json and generation_config.json, or a GGUF file, whose weights stay as they
    are. The tokenizer and, if there is one, the chat template are written beside the program.

    \b
      aoti-plugins export Llama-3.2-1B -o llama.pte --quantize int8
      aoti-plugins export Llama-3.2-1B -o llama.pte --device cuda --target h100 --quantize int4
      aoti-plugins export Llama-3.2-1B-Q4_K_M.gguf -o llama.pte
      aoti-plugins generate llama.pte "Once upon a time"
      aoti-plugins export Llama-3.1-8B -o llama.pte --draft Llama-3.2-1B --speculate 6
      aoti-plugins export Llama-3.2-1B -o llama.pte --lora-rank 16 --lora-targets q_proj,v_proj
      aoti-plugins export Llama-3.1-8B -o llama.pte --device cuda --tensor-parallel 2
      torchrun --nproc-per-node 2 -m aoti_plugins generate llama.pte "Once upon a time"
      aoti-plugins export whisper-small -o whisper.pte
      aoti-plugins transcribe whisper.pte audio.wav
    """  # noqa: D301
    output = output or Path(f"{checkpoint.resolve()}.pte")
    if is_stream(output):
        raise CheckpointError(f"the tokenizer goes beside the program, and {output} is no file")
    check_destination(output)
    check_destination(tokenizer_of(output))
    check_destination(chat_template_of(output))
    start = time.perf_counter()
    with StageDisplay(error_console()) as display:
        with display.stage("import torch, transformers and executorch"):
            quiet()
            partitioner = partitioner_for(device)
            language = _language()
        options = parse_options(
            (*option_texts, *([f"target={target}"] if target else [])), partitioner
        )
        if _GRAPHS in option_defaults(partitioner):  # tokens are many short calls of the same sizes
            options = {_GRAPHS: True, **options}
        if num_ranks > 1:
            _check_alone(lora_rank, draft, kind)
            options = {"external_data": output.stem, **options}
        chosen = chosen_partitioner(partitioner, options, output, external_weights)
        if kind == _FLOAT8:
            _check_float8(device, chosen)
        with display.stage(f"read {checkpoint.name}"):
            opened = language.open_checkpoint(checkpoint, kind != "none")
            length = _length(opened, max_length)
            speculate = speculate or (_GUESSED_TOKENS if draft else 0)
            language.check_speculation(opened.config, speculate)
            if num_ranks > 1:
                language.check_ranks(opened, num_ranks)
            guesser = language.open_checkpoint(draft, kind != "none") if draft else None
            if guesser is not None:
                language.check_draft(opened, guesser, length)
            targets = _targets(lora_rank, lora_targets)
            if sample_on_device and opened.preprocessor is not None:
                raise CheckpointError("--sample-on-device is for text; leave it out")
            if lora_rank:
                language.check_adapters(opened, targets)
            if kind in _GROUPED:
                for one in (opened, guesser) if guesser else (opened,):
                    language.check_groups(one.outline(), group_size)
        with display.stage("load the weights"):
            model = opened.load(dtype)
        kept = {}
        dtype_of_shares = _sampling_dtype(device) if sample_on_device else None

        def export(model: Any) -> Any:
            if kind in _GROUPED:
                language.check_groups(model, group_size)
            if kind != "none":
                with display.stage(f"quantize to {kind}"):
                    language.quantize(model, kind, group_size)
            if kind != "none" or opened.is_quantized:
                kept.update(language.kept_matrices(model))
            if lora_rank:
                language.add_adapters(model, lora_rank, targets)
            with display.stage("torch.export"):
                if opened.preprocessor is not None:
                    return language.export_speech(model, opened.preprocessor, length, method_style)
                return language.export_decoder(
                    model, length, method_style, speculate, dtype_of_shares
                )

        if num_ranks == 1:
            methods = export(model)
        else:
            methods = language.export_for_ranks(model, num_ranks, export)
        constants = language.metadata(opened, model, length, speculate)
        constants["get_device"] = device
        if num_ranks > 1:
            constants["get_num_ranks"] = num_ranks
            constants["get_token_nbytes"] = 0  # each rank has a part
        if dtype_of_shares is not None:
            constants["samples_in_float64"] = dtype_of_shares.itemsize == 8
            constants["samples_ahead"] = True
        if guesser is not None:
            with display.stage("load and export the draft model"):
                small = guesser.load(dtype)
                if kind != "none":
                    language.quantize(small, kind, group_size)
                methods |= language.export_draft(small, length, method_style)
                constants["get_draft_vocab_size"] = guesser.config.vocab_size
        program = lowered(methods, chosen, display, constant_methods=constants)
        with display.stage(f"write {output.name}"):
            data_files = _write(opened, program, output)
    report = {
        "file": str(output),
        "nbytes": output.stat().st_size,
        "data_files": {str(path): path.stat().st_size for path in data_files},
        "tokenizer": str(tokenizer_of(output)),
        "chat_template": str(chat_template_of(output)) if opened.chat_template else None,
        "max_length": length,
        "methods": list(methods),
        "not_quantized": kept,
        "seconds": time.perf_counter() - start,
        "stages": display.stages,
    }
    print_report(report, as_json, _show)


def _check_alone(lora_rank: int, draft: Path | None, kind: str) -> None:
    is_float8 = kind == _FLOAT8  # ExecuTorch has no ops of the project's own over such tensors
    given = (("--lora-rank", lora_rank), ("--draft", draft), ("--quantize fp8", is_float8))
    for name, is_given in given:
        if is_given:
            raise CheckpointError(f"--tensor-parallel and {name} do not go together")


def _check_float8(device: str, partitioner: Any) -> None:
    """Refuse what has no floats of 8 bits, before weights are read."""
    if device == "mps":
        raise CheckpointError("--quantize fp8: Metal has no floats of 8 bits; choose int8")
    if device != "cuda":
        return
    from aoti_plugins.cuda.device import CUDA
    from aoti_plugins.cuda.target import FLOAT8_CAPABILITY, GPU_PROPERTY
    from aoti_plugins.plugin_system.manager import get_manager

    named = decode(partitioner.delegation_spec.compile_specs).targets
    for target in CUDA.resolve(named, get_manager().targets(CUDA.name)):
        gpu = target.properties.get(GPU_PROPERTY)
        if gpu is not None and gpu.capability < FLOAT8_CAPABILITY:
            raise CheckpointError(
                f"--quantize fp8: GPUs of target {target.name} have no floats of 8 bits, those of "
                "compute capability 8.9 and newer have; choose another --target, or int8"
            )


def _language() -> Any:
    with needs_extra("language", CheckpointError):
        import safetensors  # noqa: F401
        import tokenizers  # noqa: F401
        from transformers.utils import logging
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    from aoti_plugins import language

    return language


def _length(checkpoint: Any, wanted: int | None) -> int:
    if wanted is not None and wanted > checkpoint.positions:
        raise CheckpointError(
            f"--max-length {wanted}: the model was made for {checkpoint.positions} positions; "
            "choose at most that"
        )
    return wanted or min(checkpoint.positions, 2048)


def _sampling_dtype(device: str) -> Any:
    """Of distributions that a device samples from: the host's, where it has that."""
    import torch

    return torch.float32 if device == "mps" else torch.float64


def _targets(rank: int, text: str | None) -> list[str]:
    """The names in ``--lora-targets``."""
    targets = [name.strip() for name in (text or "").split(",") if name.strip()]
    if targets and not rank:
        raise CheckpointError("--lora-targets needs --lora-rank, the largest rank of adapters")
    return targets


def _write(checkpoint: Any, program: Any, output: Path) -> list[Path]:
    """Write the program and what belongs beside it; returns the data files."""
    with writing(tokenizer_of(output)) as beside:
        with checkpoint.tokenizer_path.open("rb") as tokenizer:
            shutil.copyfileobj(tokenizer, beside)
        if checkpoint.chat_template is not None:
            text = json.dumps(checkpoint.chat_template, ensure_ascii=False, indent=2)
            with writing(chat_template_of(output)) as chat:
                chat.write(text.encode())
        return write_program(program, output)[1]


def _show(report: dict[str, Any]) -> None:
    rows = [
        ("program", report["file"], nbytes_text(report["nbytes"])),
        *(("data file", name, nbytes_text(size)) for name, size in report["data_files"].items()),
        ("tokenizer", report["tokenizer"], ""),
        ("chat template", report["chat_template"] or "none", ""),
        ("methods", ", ".join(report["methods"]), ""),
        ("most tokens", report["max_length"], ""),
        *(("not quantized", name, nbytes_text(n)) for name, n in report["not_quantized"].items()),
    ]
    title = f"Exported in {seconds_text(report['seconds'])}"
    console().print(table(title, ("what", "value", ">size"), rows))
