"""What the partitioners said of the test programs, and where it is stored."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from families import FAMILIES, first_cases
from operator_case import Case
from survey import Found
from torchgen.aoti.fallback_ops import inductor_fallback_ops

ROOT = Path(__file__).parents[2]
STORED = ROOT / "tests" / "coverage" / "answers.json"


@dataclass(frozen=True)
class Answer:
    """What the partitioners of all devices said of one case."""

    inputs: str
    found: dict[str, Found]


@dataclass(frozen=True)
class Record:
    """The answers on one operator, in the order of its first cases, and with what they came."""

    date: str
    torch: str
    executorch: str
    answers: tuple[Answer, ...]


@dataclass
class Answers:
    """All that is stored.

    Attributes:
        fallback_ops: PyTorch's list, as it was with the last answers.
        records: by operator.
    """

    fallback_ops: list[str]
    records: dict[str, Record]

    @classmethod
    def load(cls) -> Answers:
        """The stored answers; none where there is no file yet."""
        if not STORED.exists():
            return cls([], {})
        stored = json.loads(STORED.read_text())
        return cls(stored["fallback_ops"], {op: _record(r) for op, r in stored["ops"].items()})

    def add(self, op: str, answers: Iterable[Answer]) -> None:
        """Store the answers on one operator; those on operators without cases are dropped."""
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        self.fallback_ops = sorted(inductor_fallback_ops)
        self.records[op] = Record(today, *versions(), tuple(answers))
        known = cases_of_ops()
        ops = {op: _stored(self.records[op]) for op in sorted(self.records) if op in known}
        content = {"fallback_ops": self.fallback_ops, "ops": ops}
        STORED.write_text(json.dumps(content, indent=1) + "\n")


def versions() -> tuple[str, str]:
    """Of torch and executorch."""
    return importlib.metadata.version("torch"), importlib.metadata.version("executorch")


def cases_of_ops(families: Iterable[str] = FAMILIES) -> dict[str, list[Case]]:
    """The first cases of each operator."""
    found = defaultdict(list)
    for family in families:
        for case in first_cases(family):
            found[case.op].append(case)
    return dict(found)


def _record(stored: dict[str, Any]) -> Record:
    answers = tuple(
        Answer(one.pop("inputs"), {device: _found(found) for device, found in one.items()})
        for one in stored.pop("programs")
    )
    return Record(**stored, answers=answers)


def _found(stored: dict[str, Any]) -> Found:
    return Found(**{**stored, "kernels": tuple(stored.get("kernels", ()))})


def _stored(record: Record) -> dict[str, Any]:
    """What differs from the defaults."""
    programs = [
        {"inputs": answer.inputs}
        | {
            device: {name: value for name, value in asdict(found).items() if value}
            for device, found in answer.found.items()
        }
        for answer in record.answers
    ]
    head = {"date": record.date, "torch": record.torch, "executorch": record.executorch}
    return {**head, "programs": programs}
