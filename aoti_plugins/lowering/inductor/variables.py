"""Environment variables for the time of a block."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def variables(given: Mapping[str, str]) -> Iterator[None]:
    """Set variables; behind the block all are as before, also those that others have set in it.

    ``mock.patch.dict`` would empty the environment for a moment, in which other threads of a
    lowering may start a compiler.
    """
    before = dict(os.environ)
    os.environ.update(given)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            os.environ.pop(name, None)
        os.environ.update({n: v for n, v in before.items() if os.environ.get(n) != v})
