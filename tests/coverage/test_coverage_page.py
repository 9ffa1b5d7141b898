"""``docs/coverage.md`` says what the partitioners say of every operator of PyTorch's list."""

from __future__ import annotations

import dataclasses

import pytest
from answers import ROOT, Answers, cases_of_ops, versions
from ask import ask
from left_out import why_left_out
from survey import DEVICES, Found, Survey
from table import (
    DECOMPOSED,
    DOCUMENT,
    INDUCTOR,
    KERNEL,
    REFUSED,
    UPSTREAM,
    MissingAnswersError,
    document,
    kind,
    supported,
)
from torchgen.aoti.fallback_ops import inductor_fallback_ops

ANSWERS = Answers.load()
SAMPLE = ("aten.abs.default", "aten.cumsum.default", "aten.kthvalue.default", "aten.mm.out")


def test_the_page_is_up_to_date() -> None:
    assert DOCUMENT.read_text() == document(ANSWERS), "run: python tests/coverage/table.py"


def test_every_operator_stands_once() -> None:
    page = DOCUMENT.read_text()
    table = page[page.index("## Operators") : page.index("## Not supported")]
    rows = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    left_out = [op for op in ANSWERS.fallback_ops if why_left_out(op)]
    assert sorted([*rows, *left_out]) == ANSWERS.fallback_ops
    assert all(page.count(f"`{op}`") == 1 for op in left_out)


def test_the_installed_list_is_known() -> None:
    known = cases_of_ops()
    unknown = [op for op in inductor_fallback_ops if not why_left_out(op) and op not in known]
    assert unknown == [], (
        "add test programs to tests/coverage/cases_*.py, or reasons to left_out.py"
    )
    assert [op for op in known if why_left_out(op)] == []


def test_all_first_cases_are_answered() -> None:
    asked = {op: [case.inputs_text() for case in cases] for op, cases in cases_of_ops().items()}
    stored = {op: [a.inputs for a in record.answers] for op, record in ANSWERS.records.items()}
    assert stored == asked, "run: python tests/coverage/ask.py"
    assert {tuple(a.found) for r in ANSWERS.records.values() for a in r.answers} == {DEVICES}


def test_an_operator_without_an_answer_is_an_error() -> None:
    with pytest.raises(MissingAnswersError, match=r"no answers for aten\.new_op\.default"):
        document(dataclasses.replace(ANSWERS, fallback_ops=["aten.new_op.default"]))


def test_kinds() -> None:
    kernel = Found(kernels=("aoti_torch_cpu_topk",))
    assert kind([Found()]) == INDUCTOR
    assert kind([Found(), kernel]) == KERNEL
    assert kind([kernel, Found(is_decomposed=True)]) == DECOMPOSED
    assert kind([kernel, Found("there is no such kernel")]) == REFUSED


def test_the_readme_has_the_counts() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    counts = {device: supported(ANSWERS, device) for device in DEVICES}
    assert len({of for _, of in counts.values()}) == 1
    (cpu, of), (cuda, _), (mps, _) = counts.values()
    assert f"Of the {of} operators" in readme
    assert f"{cpu} on the CPU, {cuda} on CUDA and {mps} on Apple GPUs" in readme
    assert f"has {len(UPSTREAM)} fallback kernels" in readme


@pytest.mark.parametrize("op", SAMPLE)
def test_stored_answers_are_what_partitioners_say(op: str) -> None:
    _check(op)


@pytest.mark.long
@pytest.mark.parametrize("op", [op for op in cases_of_ops() if op not in SAMPLE])
def test_all_stored_answers_are_what_partitioners_say(op: str) -> None:
    _check(op)


def _check(op: str) -> None:
    record = ANSWERS.records[op]
    found, _ = versions()
    if record.torch.partition("+")[0] != found.partition("+")[0]:
        pytest.skip(f"the stored answer is of torch {record.torch}, found {found}")
    assert tuple(ask(Survey(), cases_of_ops()[op])) == record.answers
