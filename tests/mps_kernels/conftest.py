"""The operators of the MPS runtime, over the stand-in for Metal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mps_operators import Operators
from mps_support import NO_OPERATORS, operators_library, stand_in


@pytest.fixture(scope="session")
def operators(shared_dir: Path) -> Operators:
    """The shims, ready to be called on this thread."""
    path = operators_library()
    if path is None:
        pytest.skip(NO_OPERATORS)
    os.environ.update(stand_in(shared_dir))
    return Operators(path)
