"""``aoti-plugins selftest``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from aoti_plugins.cli._options import PATH, device_of_this_machine, parse_options, partitioner_for
from aoti_plugins.cli._output import json_option, nbytes_text, print_json
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.cli._text import echo
from aoti_plugins.destinations import check_destination, write_bytes


@click.group()
def command() -> None:
    """Try a machine with programs that were made elsewhere.

    \b
    On any machine:        aoti-plugins selftest make selftest.zip --device mps
    On the one to try:     aoti-plugins selftest run selftest.zip
    """  # noqa: D301


@command.command()
@click.argument("output", type=PATH)
@click.option("--device", help="Device to lower for.  [default: what this machine has]")
@click.option(
    "--option",
    "option_texts",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of the device's partitioner; may be repeated.",
)
@click.option("--model", "names", multiple=True, help="Only this model; may be repeated.")
def make(
    output: Path, device: str | None, option_texts: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """Lower the self-test's models and record what they compute."""
    check_destination(output)
    quiet()
    device = device or device_of_this_machine()
    partitioner = partitioner_for(device)
    options = parse_options(option_texts, partitioner)
    from aoti_plugins.selftest.make import make_bundle

    nbytes = make_bundle(
        output,
        device,
        lambda: partitioner(**options),
        names,
        report=lambda name: echo(f"lowering {name} for {device}", err=True),
    )
    echo(f"{output}: {nbytes_text(nbytes)}")


@command.command()
@click.argument("bundle", type=PATH)
@click.option("-o", "--output", type=PATH, help="Also write the report here.")
@click.option("--model", "names", multiple=True, help="Only this program; may be repeated.")
@json_option
@click.pass_context
def run(
    ctx: click.Context, bundle: Path, output: Path | None, names: tuple[str, ...], as_json: bool
) -> None:
    """Run a self-test and print a report to paste into an issue.

    The exit code is 1 if a case failed.
    """
    if output is not None:
        check_destination(output, read=[bundle])
    from aoti_plugins.selftest.bundle import read_bundle
    from aoti_plugins.selftest.report import machine, report_of
    from aoti_plugins.selftest.run import run_bundle

    read = read_bundle(bundle)
    results = []
    for result in run_bundle(bundle, names):
        echo(f"{'FAILED' if result.error else 'ok':7} {result.name}", err=True)
        results.append(result)
    report = report_of(read, results)
    if output is not None:
        write_bytes(output, report.encode())
    if as_json:
        print_json({"machine": machine(), "results": [asdict(one) for one in results]})
    else:
        echo(report)
    ctx.exit(int(any(one.error for one in results)))
