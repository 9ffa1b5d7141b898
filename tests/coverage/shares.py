"""The test programs that a device runs, in shares that are compiled as one program each."""

from __future__ import annotations

from collections import Counter

from answers import Answers
from families import FAMILIES
from operator_case import Case

_LARGEST = 20


def taken(device: str, family: str) -> list[Case]:
    """The cases that a device's partitioner takes whole, and that PyTorch can run here.

    ``docs/coverage.md`` names the operators of the others.
    """
    records = Answers.load().records
    index: Counter[str] = Counter()
    found = []
    for case in FAMILIES[family]:
        index[case.op] += case.is_first
        answer = records[case.op].answers[index[case.op] - 1]
        if case.is_run and not answer.found[device].reason:
            found.append(case)
    return found


def shares(device: str) -> dict[str, list[Case]]:
    """The cases of all families; the names say family and number."""
    found = {}
    for family in FAMILIES:
        cases = taken(device, family)
        for index, start in enumerate(range(0, len(cases), _LARGEST)):
            found[f"{family}-{index}"] = cases[start : start + _LARGEST]
    return found


def sample(device: str) -> list[Case]:
    """A few cases of every family."""
    return [case for family in FAMILIES for case in taken(device, family)[5::40]]
