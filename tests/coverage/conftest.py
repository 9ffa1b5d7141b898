"""What the partitioners say of the test programs, asked once per run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from families import first_cases
from filelock import FileLock
from survey import Found, Survey

Answers = list[dict[str, Found]]


@pytest.fixture(scope="session")
def answers(shared_dir: Path) -> Callable[[str], Answers]:
    """``answers("sorting")``: what each device says of each first case of a family."""

    def ask(family: str) -> Answers:
        path = shared_dir / f"coverage_{family}.json"
        with FileLock(f"{path}.lock"):
            if not path.exists():
                survey = Survey()
                found = [survey.ask(case) for case in first_cases(family)]
                as_json = [{d: vars(one) for d, one in case.items()} for case in found]
                path.write_text(json.dumps(as_json))
        return [
            {
                device: Found(**{**one, "kernels": tuple(one["kernels"])})
                for device, one in case.items()
            }
            for case in json.loads(path.read_text())
        ]

    return ask


def _found(values: dict[str, Any]) -> Found:
    return Found(**{**values, "kernels": tuple(values["kernels"])})
