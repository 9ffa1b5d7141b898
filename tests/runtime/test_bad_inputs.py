"""What callers get wrong: an error names the input, what was found and what was expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program

Lowered = Callable[[str], Path]


@pytest.fixture(scope="module")
def mlp(lowered_programs: Lowered) -> Any:
    with Program(lowered_programs("mlp")) as program:
        yield program


class OnAppleGpu:
    def __dlpack__(self) -> Any:
        raise AssertionError("not reached")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (8, 0)


class BrokenExport(OnAppleGpu):
    def __dlpack__(self) -> Any:
        raise BufferError("it is sparse")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


WHAT = r"^input 0 \(input\) of method 'forward': "
RIGHT = torch.zeros(4, 64)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            RIGHT.double(),
            WHAT + r"found float64, expected float32. Convert it with .to\(torch.float32\).$",
        ),
        (RIGHT.numpy().astype("f8"), WHAT + r"found float64, .* with .astype\('float32'\).$"),
        (numpy.float32(1), WHAT + r"found shape \[\], expected 2 dimensions \[4, 64\]"),
        (RIGHT[0], WHAT + r"found shape \[64\], expected 2 dimensions \[4, 64\].$"),
        (torch.zeros(5, 64), WHAT + r"found shape \[5, 64\], expected at most 4 in dimension 0"),
        (torch.zeros(3, 64), r"(?s)input 0.*\[3, 64\].*\[4, 64\]"),
        (torch.zeros(0, 64), r"(?s)input 0.*\[0, 64\].*\[4, 64\]"),
        ([1.0], WHAT + r"found a list, expected a float32\[4, 64\] as torch tensor, numpy array"),
        (None, WHAT + r"found None, expected a float32\[4, 64\]"),
        (1.5, WHAT + r"found a float, expected a float32\[4, 64\]"),
        (RIGHT.to_sparse(), WHAT + r"the tensor has device 'cpu' and layout torch.sparse_coo"),
        (torch.empty(4, 64, device="meta"), WHAT + r"the tensor has device 'meta' and layout"),
        (
            OnAppleGpu(),
            r"^input 0 \(input\) of method 'forward' is a OnAppleGpu on DLPack device \(8, 0\)",
        ),
        (BrokenExport(), WHAT + r"BrokenExport.__dlpack__\(\) failed: it is sparse"),
    ],
)
def test_wrong_input(mlp: Program, value: Any, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        mlp(value)
    assert mlp(RIGHT)[0].shape == (4, 64), "the method still works"


def test_wrong_number_of_inputs(mlp: Program) -> None:
    message = r"method 'forward' got 2 inputs, expected 1: input: float32\[4, 64\]"
    with pytest.raises(ProgramError, match=message):
        mlp(RIGHT, RIGHT)
    with pytest.raises(ProgramError, match=r"got 0 inputs"):
        mlp()


def test_no_such_method(mlp: Program) -> None:
    with pytest.raises(ProgramError, match=r"has no method 'backward'; it has: forward"):
        mlp.method("backward")


def test_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "none.pte"
    with pytest.raises(ProgramError, match=rf"^there is no file '{path}'$"):
        Program(path)


def test_missing_data_file(tmp_path: Path, lowered_programs: Lowered) -> None:
    with pytest.raises(ProgramError, match=r"there is no file '.*weights.ptd'"):
        Program(lowered_programs("mlp"), data_files=[tmp_path / "weights.ptd"])


def test_data_files_with_bytes(lowered_programs: Lowered) -> None:
    with pytest.raises(ProgramError, match=r"data files need a program that is loaded from a path"):
        Program(lowered_programs("mlp").read_bytes(), data_files=["weights.ptd"])


@pytest.mark.parametrize("as_bytes", [False, True])
@pytest.mark.parametrize(
    ("keep", "message"),
    [
        (0, r"is empty. Copy it again or lower the model again.$"),
        (5, r"is truncated: found 5 bytes, which is too few for any program."),
        (100, r"is truncated: found 100 bytes, expected \d{5,}. Copy it again or lower the model"),
        (-1, r"is truncated: found (\d{5,}) bytes, expected \d{5,}"),
    ],
)
def test_truncated_file(
    tmp_path: Path, lowered_programs: Lowered, keep: int, message: str, as_bytes: bool
) -> None:
    path = tmp_path / "cut.pte"
    path.write_bytes(lowered_programs("mlp").read_bytes()[:keep])
    name = rf"^the program of {path.stat().st_size} bytes " if as_bytes else r"^the program '.*' "
    with pytest.raises(ProgramError, match=name + message):
        Program(path.read_bytes() if as_bytes else path)


def test_not_a_program(tmp_path: Path) -> None:
    path = tmp_path / "text.pte"
    path.write_text("hello world\n" * 100)
    message = (
        r"the program '.*text.pte' is no ExecuTorch program: found b'o wo' at byte 4, expected"
    )
    with pytest.raises(ProgramError, match=message):
        Program(path)


def test_damaged_flatbuffer(tmp_path: Path, lowered_programs: Lowered) -> None:
    data = bytearray(lowered_programs("mlp").read_bytes())
    data[64:512] = bytes(448)
    path = tmp_path / "damaged.pte"
    path.write_bytes(data)
    with pytest.raises(ProgramError, match=r"cannot load .*damaged.pte': .*damaged"):
        Program(path).method()


def test_damaged_payload(tmp_path: Path, lowered_programs: Lowered) -> None:
    data = bytearray(lowered_programs("mlp").read_bytes())
    data[data.index(b"AOTIPLUG") + 40] ^= 0xFF
    message = r"cannot load method 'forward' of the program of \d+ bytes: .*AotiCpuBackend.*crc32"
    with pytest.raises(ProgramError, match=message):
        Program(data).method()
