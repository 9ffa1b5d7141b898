"""``aoti-plugins profile``: kernels, modules and lines, the trace, the page in a browser."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy
import pytest
from click.testing import CliRunner, Result
from rich.console import Console
from support import CdistOutside

from aoti_plugins.cli.app import app
from aoti_plugins.cli.profile import module_lines
from aoti_plugins.errors import ProgramError
from aoti_plugins.payload import KernelRef
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.profiling.profile import (
    KernelTime,
    Machine,
    kernel_times,
    module_parts,
    module_tree,
)
from aoti_plugins.profiling.report import Page, html
from aoti_plugins.runtime import CallEvent, Program

pytestmark = pytest.mark.usefixtures("restored_logging")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CALLS = 4


def aoti(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(scope="module")
def profiled(watched: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("profile")
    trace, page = folder / "trace.json", folder / "report.html"
    options = ("--repeat", CALLS, "--trace", trace, "--html", page)
    model = watched.with_suffix(".pt2")
    with get_manager().registered(CdistOutside(), "cdist-outside"):
        done = aoti("profile", watched, "--model", model, *options, "--json")
    assert done.exit_code == 0, done.output
    return {**json.loads(done.stdout), "trace": json.loads(trace.read_text()), "page": page}


def kernels_of(profiled: dict[str, Any], op: str) -> list[dict[str, Any]]:
    return [one for one in profiled["kernels"] if op in one["ops"]]


def test_each_kernel_names_ops_modules_and_lines(profiled: dict[str, Any]) -> None:
    last = [one for one in kernels_of(profiled, "aten.linear.default") if one["flops"]]
    modules = {module for one in last for module in one["modules"]}
    expected = {"blocks.0.project (Linear)", "last (Linear)", "blocks.1.project (Linear)"}
    assert modules >= expected
    convolutions = kernels_of(profiled, "aten.conv1d.default")
    lines = {line for one in convolutions for line in one["lines"]}
    assert any(
        re.match(r"tests/profiling_support.py:\d+ in forward: return self.smooth", one)
        for one in lines
    )
    assert not any(one.startswith("/") for one in lines)


def test_bytes_and_operations_are_those_of_the_tensors(profiled: dict[str, Any]) -> None:
    (last,) = (
        one
        for one in kernels_of(profiled, "aten.linear.default")
        if one["flops"] and one["modules"] == ["last (Linear)"]
    )
    assert last["flops"] == 2 * 3 * 2 * 6 * 8
    assert last["nbytes_written"] == 3 * 2 * 8 * 4
    # The input and the weight; a bias may be in the kernel, or in memory before it.
    least = 4 * (3 * 2 * 6 + 6 * 8)
    assert least <= last["nbytes_read"] <= least + 4 * 3 * 2 * 8
    assert last["launches"] == 1
    assert 0 < last["seconds"] < 1
    share = (last["nbytes_read"] + last["nbytes_written"]) / last["seconds"]
    assert last["bandwidth_share"] == pytest.approx(share / profiled["machine"]["bytes_per_second"])


def test_kernels_are_a_part_of_the_call(profiled: dict[str, Any]) -> None:
    inside = sum(one["seconds"] for one in profiled["kernels"])
    assert inside > 0
    assert profiled["modules"]["seconds"] == pytest.approx(inside)
    names = {part["name"] for part in profiled["modules"]["parts"]}
    assert names >= {"blocks", "last"}


def test_what_is_outside_is_timed_and_explained(profiled: dict[str, Any]) -> None:
    outside = [one for one in profiled["kernels"] if one["delegate"] == -1]
    assert any("cdist" in one["name"] for one in outside), outside
    assert (
        len({one["delegate"] for one in profiled["kernels"]}) == 3
    )  # two delegates and ExecuTorch
    (why,) = (one for one in profiled["outside"] if "cdist" in one["op"])
    assert why["where"].startswith("Watched, profiling/conftest.py:")
    assert "_cdist_forward, which nobody provides" in why["why"]


def test_an_op_that_a_plan_does_not_refuse(watched: Path) -> None:
    """Without the plugin that the program was lowered with."""
    done = aoti("profile", watched, "--repeat", 1, "--model", watched.with_suffix(".pt2"), "--json")
    (why,) = (one for one in json.loads(done.stdout)["outside"] if "cdist" in one["op"])
    assert "refuses no such op" in why["why"]


def test_the_trace_is_what_perfetto_reads(profiled: dict[str, Any]) -> None:
    events = [one for one in profiled["trace"]["traceEvents"] if one["ph"] == "X"]
    assert {one["args"]["call"] for one in events} == set(range(CALLS))
    assert all(one["ts"] >= 0 and one["dur"] >= 0 for one in events)
    kernels = [one for one in events if one["cat"] == "kernel"]
    assert any("last (Linear)" in one["args"].get("modules", ()) for one in kernels)
    calls = [one for one in events if one["name"] == "DELEGATE_CALL" and one["args"]["call"] == 0]
    for one in kernels:
        if one["args"]["call"] == 0:
            assert any(
                call["ts"] <= one["ts"] and one["ts"] + one["dur"] <= call["ts"] + call["dur"]
                for call in calls
            )


def test_the_page_in_a_browser(profiled: dict[str, Any]) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is on the path: apt install chromium")
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    ran = subprocess.run(
        [*command, profiled["page"].as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    # Counted in the document that the browser made of the page.
    assert ran.stdout.count("<rect ") >= len(profiled["kernels"])
    assert ran.stdout.count("<summary>") >= 6
    for part in ("timeline", "modules", "kernels", "memory-plan", "outside-of-delegates"):
        assert f'id="{part}"' in ran.stdout
    assert "blocks.0.project (Linear)" in ran.stdout


def test_the_page_loads_nothing(profiled: dict[str, Any]) -> None:
    text = profiled["page"].read_text()
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(|<script", text)


def test_the_table_for_people(watched: Path) -> None:
    done = aoti("profile", watched, "--repeat", 1)
    assert done.exit_code == 0, done.output
    assert "aoti_torch_cpu_" in done.output
    assert "blocks" in done.output
    assert "give --model" in done.output


def test_values_come_out_the_same(watched: Path) -> None:
    x = numpy.linspace(-1, 1, 24, dtype=numpy.float32).reshape(3, 8)
    with Program(watched) as program:
        (plain,) = program(x)
        method = program.method(trace=True)
        (traced,) = method(x)
    numpy.testing.assert_array_equal(plain, traced)


def test_events_are_of_the_last_call(watched: Path) -> None:
    x = numpy.ones((3, 8), numpy.float32)
    with Program(watched) as program:
        method = program.method(trace=True)
        assert not [one for one in method.events() if one.is_kernel]
        method(x)
        first = method.events()
        method(x)
        second = method.events()
    assert [one.name for one in first] == [one.name for one in second]
    assert first[-1].end_ns <= second[0].begin_ns
    assert {one.instruction for one in second if one.is_kernel} > {0}


def test_a_method_that_is_not_traced_says_so(watched: Path) -> None:
    with Program(watched) as program:
        method = program.method()
        with pytest.raises(ProgramError, match="keeps no events"):
            method.events()
        with pytest.raises(ProgramError, match="no share_state"):
            program.method(trace=True, share_state=False)


@pytest.mark.parametrize("option", ["--trace", "--html"])
def test_a_place_that_cannot_be_written_is_found_first(
    watched: Path, tmp_path: Path, option: str
) -> None:
    done = aoti("profile", watched, option, tmp_path / "no" / "file")
    assert done.exit_code == 1
    assert "no" in done.output


def test_a_program_that_is_missing(tmp_path: Path) -> None:
    done = aoti("profile", tmp_path / "none.pte")
    assert done.exit_code == 1
    assert "there is no file" in done.output


def event(name: str, instruction: int, begin: int, end: int, is_kernel: bool = True) -> CallEvent:
    return CallEvent(name, is_kernel, instruction, begin, end)


def test_launches_and_targets() -> None:
    """A kernel in a loop is summed; of two targets the one is taken that has all names."""
    call = [event("a:0", 1, 0, 1000), event("a:0", 1, 1000, 3000), event("b:1", 1, 3000, 4000)]
    old = (KernelRef("a:0", ("wrong",)),)
    new = (KernelRef("a:0", ("op",), nbytes_read=8), KernelRef("b:1"))
    first, second = kernel_times([call], {1: 0}, [[old, new]])
    assert (first.origin.ops, first.launches, first.nbytes) == (("op",), 2, 16)
    assert first.seconds == pytest.approx(3e-6)
    assert first.bandwidth_share(Machine(16 / 3e-6, 1)) == pytest.approx(1)
    assert second.bandwidth_share(Machine(1, 1)) is None


def test_instructions_are_not_counted_beside_their_kernels() -> None:
    call = [
        event("Method::execute", -1, 0, 99, False),
        event("DELEGATE_CALL", 0, 0, 9, False),
        event("OPERATOR_CALL", 1, 9, 30, False),
        event("native_call_cdist.out", 1, 10, 20, False),
        event("OPERATOR_CALL", 2, 30, 35, False),
    ]
    found = {one.origin.name: one.seconds for one in kernel_times([call], {0: 0}, [])}
    expected = {"native_call_cdist.out": 1e-8, "OPERATOR_CALL": 5e-9}
    assert found == pytest.approx(expected)


def test_a_kernel_of_two_modules_counts_for_both() -> None:
    kernel = KernelTime(0, 1, 4.0, KernelRef("k", modules=("a.b (Linear)", "Root")))
    tree = module_tree([kernel])
    assert (tree.seconds, tree.kernels) == (4.0, ("k",))
    assert tree.parts[0].name == "a"
    assert tree.parts[0].seconds == 2.0
    assert module_parts("Root") == ()


def test_names_are_text_in_a_terminal() -> None:
    kernel = KernelTime(0, 1, 1.0, KernelRef("k", modules=("[/red][bold (X)",)))
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(module_lines(module_tree([kernel])))
    assert "[/red][bold  1.00 s" in console.export_text()


def test_names_are_text_on_the_page() -> None:
    """Whoever made the program chose them."""
    bad = "<script>alert(1)</script>"
    kernel = KernelTime(0, 1, 1.0, KernelRef(bad, (bad,), (f"{bad} (X)",), (bad,)))
    call, tree, machine = [event(bad, 0, 0, 9)], module_tree([kernel]), Machine(1, 1)
    page = Page(bad, ((bad, bad),), call, [kernel], tree, (), (), machine)
    assert "<script" not in html(page)
