"""Ask the partitioners of all devices about the operators of PyTorch's list; store the answers.

    python tests/coverage/ask.py sorting pooling
    python tests/coverage/ask.py --op aten.topk.default
    python tests/coverage/ask.py --new

No GPU is needed. The programs take about a second each; ``python tests/coverage/table.py`` makes
the page of the answers.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from answers import Answer, Answers, cases_of_ops
from families import FAMILIES
from operator_case import Case
from survey import Survey


def ask(survey: Survey, cases: list[Case]) -> list[Answer]:
    """What the partitioners say of each case."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch about its own operators
        return [Answer(case.inputs_text(), survey.ask(case)) for case in cases]


def main() -> None:
    """Ask about what the arguments name."""
    options = _options()
    chosen = cases_of_ops(options.families or FAMILIES)
    answers = Answers.load()
    if options.op:
        chosen = {op: cases for op, cases in chosen.items() if op in options.op}
    if options.new:
        chosen = {op: cases for op, cases in chosen.items() if op not in answers.records}
    survey = Survey()
    for index, (op, cases) in enumerate(chosen.items(), 1):
        found = ask(survey, cases)
        answers.add(op, found)
        reasons = {name: one.reason for a in found for name, one in a.found.items() if one.reason}
        print(f"{index}/{len(chosen)} {op} {reasons or ''}", file=sys.stderr, flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("families", nargs="*", choices=[[], *FAMILIES], metavar="FAMILY")
    parser.add_argument("--op", action="append", help="only this operator")
    parser.add_argument("--new", action="store_true", help="only operators without an answer")
    options = parser.parse_args()
    unknown = set(options.op or ()) - cases_of_ops(options.families or FAMILIES).keys()
    if unknown:
        parser.error(f"no test program is of {', '.join(sorted(unknown))}")
    return options


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    main()
