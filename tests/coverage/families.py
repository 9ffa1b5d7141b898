"""All test programs, by family."""

from __future__ import annotations

import cases_algebra
import cases_elements
import cases_networks
import cases_pooling
import cases_sorting
from operator_case import Case

FAMILIES: dict[str, tuple[Case, ...]] = {
    "algebra": cases_algebra.CASES,
    "elements": cases_elements.CASES,
    "networks": cases_networks.CASES,
    "pooling": cases_pooling.CASES,
    "sorting": cases_sorting.CASES,
}


def first_cases(family: str) -> list[Case]:
    """Those that stand for the others, which differ from them in their inputs alone."""
    return [case for case in FAMILIES[family] if case.is_first]
