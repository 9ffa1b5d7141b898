"""The operators of the MPS runtime, over the stand-in for Metal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mps_operators import Operators
from mps_support import stand_in

from aoti_plugins.native_files import has_library, library


@pytest.fixture(scope="session")
def operators(shared_dir: Path) -> Operators:
    """The shims, ready to be called on this thread."""
    name = "libmps_operators.so"
    if not has_library(name):
        pytest.skip(f"{name} is not beside the libraries: build native/ with its tests")
    os.environ.update(stand_in(shared_dir))
    return Operators(library(name))
