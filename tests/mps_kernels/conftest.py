"""The operators of the MPS runtime, over the stand-in for Metal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from mps_operators import Operators
from mps_support import NO_OPERATORS, operators_library, stand_in


@pytest.fixture(scope="module", autouse=True)
def _metal(shared_dir: Path) -> Iterator[None]:
    """Metal's stand-in, for the kernels that this module runs."""
    with mock.patch.dict(os.environ, stand_in(shared_dir)):
        yield


@pytest.fixture(scope="session")
def operators(shared_dir: Path) -> Operators:
    """The shims, ready to be called on this thread."""
    path = operators_library()
    if path is None:
        pytest.skip(NO_OPERATORS)
    with mock.patch.dict(os.environ, stand_in(shared_dir)):
        return Operators(path)
