"""``aoti-plugins doctor``."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

import click
from rich.text import Text

from aoti_plugins.cli._checks import CPU_PATH, RUN_CPU, Finding, run_checks
from aoti_plugins.cli._output import console, json_option, print_json, table
from aoti_plugins.cli._patches import patch_states
from aoti_plugins.cli._quiet import quiet


@click.command()
@click.option("--run-only", is_flag=True, help="Judge only what running needs, not lowering.")
@click.option("--patches", is_flag=True, help="List what lowering changes in PyTorch and Triton.")
@json_option
@click.pass_context
def command(ctx: click.Context, run_only: bool, patches: bool, as_json: bool) -> None:
    """Check this machine: what is there, what is missing, for what.

    The exit code is 1 only if something is missing that lowering for or running on the CPU needs.
    With --patches it only lists.
    """
    quiet()
    if patches:
        _show_patches(as_json)
        return
    findings = run_checks()
    required = {RUN_CPU} if run_only else set(CPU_PATH)
    broken = [one for one in findings if not one.ok and required & set(one.needed_for)]
    if as_json:
        print_json({"ok": not broken, "findings": [asdict(one) for one in findings]})
    else:
        _show(findings, broken)
    ctx.exit(1 if broken else 0)


def _show(findings: list[Finding], broken: list[Finding]) -> None:
    out = console()
    rows = [_row(one, one in broken) for one in findings]
    columns = ("", "what", "found", "needed for", "what to do")
    out.print(table("This machine", columns, rows))
    missing = sorted({use for one in findings if not one.ok for use in one.needed_for})
    if missing:
        out.print(f"Does not work here, or not fully: {', '.join(missing)}.")
    if not broken:
        out.print("The CPU path is complete.", style="green")


def _show_patches(as_json: bool) -> None:
    states = patch_states()
    if as_json:
        print_json({"patches": [_patch_facts(*one) for one in states]})
        return
    out = console()
    rows = [(one.name.rpartition(".")[2], one.device, state, one.why) for one, state in states]
    out.print(table("Patches", ("name", "device", "state", "why"), rows))
    counts = Counter(state if state in ("fits", "not needed") else "misfit" for _, state in states)
    out.print(
        f"{len(states)} patches: {counts['fits']} fit, {counts['not needed']} are not needed, "
        f"{counts['misfit']} do not fit."
    )


def _patch_facts(patch: Any, state: str) -> dict[str, Any]:
    facts = {"name": patch.name, "device": patch.device, "state": state}
    return {**facts, "why": patch.why, "until": patch.until, "targets": patch.targets}


def _row(finding: Finding, broken: bool) -> tuple[Any, ...]:
    if finding.ok:
        mark = Text("ok", style="green")
    else:
        mark = Text("broken", style="red") if broken else Text("missing", style="yellow")
    return mark, finding.name, finding.found, ", ".join(finding.needed_for), finding.advice
