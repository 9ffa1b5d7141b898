"""Inputs of a program from files, literals or a random generator, and its outputs into files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from aoti_plugins.destinations import check_destination, write_bytes
from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Method, Program, ValueInfo

_LITERALS = {"true": True, "false": False, "none": None}


def read_inputs(sources: Iterable[str], method: Method) -> list[Any]:
    """Read the values of all ``--input`` options; one file may hold several.

    Args:
        sources: each a file or a number, or a name of an input, ``=`` and one of these.
        method: says the names.

    Raises:
        ProgramError: what cannot be read, or given so.
    """
    values: list[Any] = []
    named: dict[str, Any] = {}
    for source in sources:
        name, is_named, rest = source.partition("=")
        if not is_named or Path(source).is_file():
            values += _read(source)
            continue
        found = _read(rest)
        if name in named or len(found) != 1:
            why = "it is given twice" if name in named else f"{rest} holds {len(found)} values"
            raise ProgramError(f"--input {source}: one value for {name!r}, please; {why}")
        named[name] = found[0]
    return list(method.in_order(tuple(values), named)) if named else values


def _read(source: str) -> list[Any]:
    if source.lower() in _LITERALS:
        return [_LITERALS[source.lower()]]
    for number in (int, float):
        try:
            return [number(source)]
        except ValueError:
            pass
    path = Path(source)
    readers = {".npy": _read_numpy, ".npz": _read_numpy, ".pt": _read_pt, ".pth": _read_pt}
    if path.suffix not in readers:
        raise ProgramError(
            f"--input {source}: expected a number, true, false, none, or a file that ends in "
            f"{', '.join(readers)}"
        )
    if not path.is_file():
        raise ProgramError(f"--input {source}: there is no such file")
    try:
        return readers[path.suffix](path)
    except Exception as error:
        raise ProgramError(f"--input {source}: cannot be read: {error}") from error


def _read_numpy(path: Path) -> list[Any]:
    import numpy

    found = numpy.load(path)
    if isinstance(found, numpy.ndarray):
        return [found]
    with found:
        return list(found.values())


def _read_pt(path: Path) -> list[Any]:
    import torch

    value = torch.load(path, map_location="cpu", weights_only=True)
    return list(value) if isinstance(value, (list, tuple)) else [value]


def default_method(program: Program) -> str:
    """The method that a user means who names none: the only one, or ``forward``."""
    only_one = len(program.methods) == 1
    return program.methods[0] if only_one else "forward"


def inputs_of(method: Method, sources: Sequence[str], seed: int) -> list[Any]:
    """The user's inputs, or random ones where there are none; see ``read_inputs``."""
    return read_inputs(sources, method) if sources else random_inputs(method, seed)


def random_inputs(method: Method, seed: int) -> list[Any]:
    """Make inputs of the largest shapes: normal numbers, and 0 or 1 for integers and bools."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return [_random(info, generator) for info in method.inputs]


def _random(info: ValueInfo, generator: Any) -> Any:
    import torch

    scalars = {"int": 1, "double": 1.0, "bool": True, "none": None}
    if info.kind in scalars:
        return scalars[info.kind]
    if info.kind != "tensor":
        raise ProgramError(f"cannot make up an input of kind {info.kind!r}; give it with --input")
    dtype = getattr(torch, info.dtype)
    if dtype.is_floating_point:
        return torch.randn(info.shape, generator=generator).to(dtype)
    if dtype.is_complex:
        return torch.randn(info.shape, generator=generator, dtype=dtype)
    return torch.randint(0, 2, info.shape, generator=generator).to(dtype)


def check_output_path(path: Path) -> None:
    """Find out, before anything runs, whether outputs can be written to a file.

    Raises:
        ProgramError: it is of no kind that is known.
        DestinationError: it cannot be written.
    """
    if path.suffix not in (".npz", ".pt", ".pth"):
        raise ProgramError(f"--save-outputs {path}: expected a name that ends in .npz or .pt")
    check_destination(path)


def save_outputs(outputs: tuple[Any, ...], path: Path) -> None:
    """Write outputs as ``output_<i>`` into an ``.npz``, or as a list into a ``.pt``."""
    import numpy

    file = io.BytesIO()
    if path.suffix == ".npz":
        arrays = {f"output_{i}": _as_numpy(value, path) for i, value in enumerate(outputs)}
        numpy.savez(file, **arrays)
    else:
        import torch

        tensors = [torch.from_numpy(v) if isinstance(v, numpy.ndarray) else v for v in outputs]
        torch.save(tensors, file)
    write_bytes(path, file.getbuffer())


def _as_numpy(value: Any, path: Path) -> Any:
    if not hasattr(value, "detach"):
        return value
    try:
        return value.numpy()
    except TypeError as error:
        raise ProgramError(
            f"--save-outputs {path}: .npz cannot hold {value.dtype}; choose a name that ends in .pt"
        ) from error
