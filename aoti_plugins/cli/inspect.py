"""``aoti-plugins inspect``."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from aoti_plugins.cli._options import program_argument
from aoti_plugins.cli._output import console, json_option, nbytes_text, print_json, table
from aoti_plugins.cli._pte import inspect_program
from aoti_plugins.interface.contents import type_text

_RUNS = {
    "tf32_matmul": "products in TF32",
    "tf32_convolution": "convolutions in TF32",
    "cuda_graphs": "calls as CUDA graphs",
    "ranks": "as several processes",
}


@click.command()
@program_argument
@click.option("--constants", "all_constants", is_flag=True, help="List every constant.")
@json_option
def command(program: Path, all_constants: bool, as_json: bool) -> None:
    """Show what a program holds: methods, delegates, blobs, constants, needed symbols, its makers.

    Reads the programs of any delegate; into the payloads of ours it looks more closely.
    """
    report = inspect_program(program)
    if as_json:
        print_json(report)
        return
    out = console()
    out.print(f"[bold]{report['file']}[/bold]  {nbytes_text(report['nbytes'])}")
    _show_methods(out, report)
    for method in report["methods"]:
        for index, delegate in enumerate(method["delegates"]):
            _show_delegate(out, f"{method['name']}[{index}]", delegate, all_constants)
    _show_blobs(out, report)


def _show_methods(out: Console, report: dict[str, Any]) -> None:
    rows = [
        (
            method["name"],
            ", ".join(_interface_texts(method, "inputs")),
            ", ".join(_interface_texts(method, "outputs")),
            ", ".join(one["id"] for one in method["delegates"]) or "none",
            ", ".join(method["operators"]) or "none",
            nbytes_text(method["memory_nbytes"]),
        )
        for method in report["methods"]
    ]
    columns = ("name", "inputs", "outputs", "delegates", "operators outside", ">memory")
    out.print(table("Methods", columns, rows))


def _interface_texts(method: dict[str, Any], side: str) -> list[str]:
    """Inputs or outputs: with names and bounds where the program says them."""
    known = (method["interface"] or {}).get(f"{side}_text")
    return known if known and len(known) == len(method[side]) else method[side]


def _show_delegate(out: Console, name: str, delegate: dict[str, Any], all_constants: bool) -> None:
    if "payload_error" in delegate:
        out.print(f"delegate {name}: {delegate['payload_error']}\n", style="red", markup=False)
    if "payload" not in delegate:
        return
    payload = delegate["payload"]
    title = f"Delegate {name}: {delegate['id']}"
    out.print(table(title, ("what", "value"), _delegate_rows(delegate, payload)))
    if all_constants and payload["constants"]:
        columns = ("name", "kind", "dtype", "sizes", "strides", ">offset", "storage")
        out.print(table(f"Constants of {name}", columns, _constant_rows(payload)))


def _delegate_rows(delegate: dict[str, Any], payload: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "payload", nbytes_text(delegate["payload_nbytes"])
    yield "device, method", f"{payload['device']}, {payload['method']}"
    built = (f"{name} {version}".strip() for name, version in payload["built_with"].items())
    yield "built with", ", ".join(built)
    yield "runs", ", ".join(map(_RUNS.__getitem__, payload["flags"])) or "as usual"
    for target in payload["targets"]:
        features = ", ".join(target["features"]) or "no special features"
        yield f"target {target['name']}", f"{target['machine']}; {features}"
        yield "  code", f"{target['artifact_key']} ({nbytes_text(target['artifact_nbytes'])})"
        yield "  symbols", ", ".join(target["symbols"]) or "none"
        for library in target["libraries"]:
            yield "  library", f"{library['soname']} {library['version']} from {library['origin']}"
    yield "signed by", "\n".join(payload["signatures"]) or "nobody"
    yield "constants", _constants_summary(payload)
    yield "inputs", ", ".join(map(_value_text, payload["inputs"])) or "none"
    yield "outputs", ", ".join(map(_value_text, payload["outputs"])) or "none"
    if delegate["compile_specs"]:
        specs = (f"{key}={value}" for key, value in delegate["compile_specs"].items())
        yield "compile specs", ", ".join(specs)


def _constants_summary(payload: dict[str, Any]) -> str:
    numel = sum(math.prod(constant["sizes"]) for constant in payload["constants"])
    nbytes = sum(storage["nbytes"] for storage in payload["storages"])
    return (
        f"{len(payload['constants'])} with {numel:,} elements, "
        f"in {len(payload['storages'])} storages of {nbytes_text(nbytes)}"
    )


def _constant_rows(payload: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    for one in payload["constants"]:
        storage = payload["storages"][one["storage"]]["key"]
        yield (
            one["fqn"],
            one["kind"],
            one["dtype"],
            list(one["sizes"]),
            list(one["strides"]),
            one["storage_offset"],
            storage,
        )


def _value_text(value: dict[str, Any]) -> str:
    if value["kind"] != "tensor":
        return str(value["kind"])
    unbounded = 2**63 - 1
    bounds = tuple((low, None if high == unbounded else high) for low, high in value["dims"])
    return type_text(value["dtype"], bounds)


def _show_blobs(out: Console, report: dict[str, Any]) -> None:
    rows = [
        (
            blob["key"],
            blob["kind"],
            nbytes_text(blob["nbytes"]),
            ", ".join(blob["used_by"]) or "not ours",
            ", ".join(blob.get("needed", ())) or blob.get("error", ""),
        )
        for blob in report["named_data"]
    ]
    if rows:
        out.print(table("Blobs", ("key", "kind", ">size", "used by", "libraries needed"), rows))
