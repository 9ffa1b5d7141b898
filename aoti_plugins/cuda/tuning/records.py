"""Tuning records: configurations that were measured on a GPU, for lowering without one.

A record file is JSON, for people to read and to keep in version control::

    {
      "format": "aoti_plugins tuning record",
      "version": 1,
      "entries": [
        {
          "kind": "kernel",
          "key": {"source": "5b1f…", "sizes": {"x": 131072}, "arch": "sm_90a",
                  "multiprocessors": 132},
          "config": {"XBLOCK": 1024, "num_warps": 4, "num_stages": 1},
          "time_us": 1.68,
          "made_with": {"torch": "2.11.0", "triton": "3.6.0", "gpu": "NVIDIA H100 80GB HBM3"}
        },
        {
          "kind": "product",
          "key": {"op": "mm", "m": 128, "n": 3072, "k": 1024, "batch": 1, "dtype": "bfloat16",
                  "layout": "row,column", "arch": "sm_90a", "multiprocessors": 132},
          "config": {"choice": "template", "BLOCK_M": 64, …},
          "time_us": 5.96,
          "made_with": {…}
        }
      ]
    }

A key says what was measured, and where: the source of a kernel by a digest that ignores names, or
the shape of a matrix product; the architecture and the number of multiprocessors. A key is flat:
strings and whole numbers, and mappings of these. Files are merged key by key; of two entries the
faster wins, and of equally fast ones the one whose text sorts first, so that the result does not
depend on the order. Reading is strict: a file that is damaged or of another version is refused
with the place of the fault.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from aoti_plugins.cuda.target import CudaTarget
from aoti_plugins.destinations import write_bytes
from aoti_plugins.errors import AotiPluginsError

FORMAT = "aoti_plugins tuning record"
VERSION = 1

KERNEL = "kernel"
PRODUCT = "product"
KINDS = (KERNEL, PRODUCT)

LIBRARY_CHOICE = "cublaslt"
"""Value of ``config["choice"]``: leave the product to the library, which chooses at run time."""

TEMPLATE_CHOICE = "template"
"""Value of ``config["choice"]``: generate the kernel; the other items say how."""

_FIELDS = ("kind", "key", "config", "time_us", "made_with")

Value: TypeAlias = "str | int | Mapping[str, str | int]"


class RecordError(AotiPluginsError):
    """A tuning record is malformed, of another version, or cannot be read."""


@dataclass(frozen=True)
class Key:
    """What was measured, and on what.

    Attributes:
        kind: ``"kernel"`` or ``"product"``.
        items: name and value, sorted by name; mappings are such tuples again.
    """

    kind: str
    items: tuple[tuple[str, Any], ...]

    def __str__(self) -> str:
        facts = dict(self.items)
        if self.kind == PRODUCT:
            sizes = "×".join(str(facts.get(name)) for name in ("m", "n", "k"))
            return f"{facts.get('op')} {sizes} {facts.get('dtype')} on {facts.get('arch')}"
        sizes = ", ".join(f"{name}={value}" for name, value in facts.get("sizes", ()))
        return f"kernel {str(facts.get('source'))[:12]} ({sizes}) on {facts.get('arch')}"


@dataclass(frozen=True)
class Entry:
    """The fastest configuration known for a key.

    Attributes:
        key: what was measured.
        config: the configuration, in Inductor's names; for products also ``choice``.
        time_us: measured time of one launch in microseconds.
        made_with: versions of torch and triton and the name of the GPU.
    """

    key: Key
    config: Mapping[str, str | int]
    time_us: float
    made_with: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", MappingProxyType(dict(self.config)))
        object.__setattr__(self, "made_with", MappingProxyType(dict(self.made_with)))

    def __reduce__(self) -> tuple[type[Entry], tuple[Any, ...]]:
        return Entry, (self.key, dict(self.config), self.time_us, dict(self.made_with))

    def as_json(self) -> dict[str, Any]:
        """The entry as it is written."""
        return {
            "kind": self.key.kind,
            "key": {name: _thaw(value) for name, value in self.key.items},
            "config": dict(sorted(self.config.items())),
            "time_us": round(self.time_us, 3),
            "made_with": dict(sorted(self.made_with.items())),
        }

    @property
    def text(self) -> str:
        """One line of JSON; equal entries have equal texts."""
        return json.dumps(self.as_json(), sort_keys=True, ensure_ascii=False)


def kernel_key(gpu: CudaTarget, source_digest: str, sizes: Mapping[str, int]) -> Key:
    """Key of a generated kernel.

    Args:
        gpu: what it is made for.
        source_digest: digest of the source that does not depend on names.
        sizes: size hints by axis.
    """
    facts: dict[str, Value] = {"source": source_digest}
    if sizes:
        facts["sizes"] = sizes
    return _key(KERNEL, gpu, facts)


def product_key(
    gpu: CudaTarget, op: str, sizes: tuple[int, int, int, int], dtype: str, layout: str
) -> Key:
    """Key of a matrix product.

    Args:
        gpu: what it is made for.
        op: ``mm``, ``addmm``, ``bmm``, …
        sizes: batch, m, n, k.
        dtype: torch dtype name of the inputs, ``"tf32"`` for float32 rounded to it.
        layout: ``row`` or ``column`` for each matrix, joined by commas.
    """
    batch, m, n, k = sizes
    facts: dict[str, Value] = {
        "op": op,
        "batch": batch,
        "m": m,
        "n": n,
        "k": k,
        "dtype": dtype,
        "layout": layout,
    }
    return _key(PRODUCT, gpu, facts)


def _key(kind: str, gpu: CudaTarget, facts: Mapping[str, Value]) -> Key:
    return _frozen_key(kind, {**facts, "arch": gpu.arch, "multiprocessors": gpu.multiprocessors})


def _frozen_key(kind: str, facts: Mapping[str, Any]) -> Key:
    return Key(kind, tuple((name, _freeze(value)) for name, value in sorted(facts.items())))


def _freeze(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, Mapping) else value


def _thaw(value: Any) -> Any:
    return dict(value) if isinstance(value, tuple) else value


class Records:
    """Entries by key, and what was asked of them.

    Example:
        >>> records = Records()
        >>> records.find(Key("kernel", (("source", "5b1f"),))) is None
        True
        >>> len(records.misses)
        1
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries: dict[Key, Entry] = {}
        self._hits: dict[Key, None] = {}
        self._misses: dict[Key, None] = {}
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        """Whether there is an entry; does not count as asking for it."""
        return key in self._entries

    def __iter__(self) -> Iterator[Entry]:
        """In the order in which they are written."""
        return iter(sorted(self._entries.values(), key=lambda entry: entry.text))

    def find(self, key: Key) -> Entry | None:
        """The entry of a key; whether there was one is remembered."""
        found = self._entries.get(key)
        (self._misses if found is None else self._hits)[key] = None
        return found

    @property
    def hits(self) -> tuple[Key, ...]:
        """Keys that were asked for and found, in the order of the questions."""
        return tuple(self._hits)

    @property
    def misses(self) -> tuple[Key, ...]:
        """Keys that were asked for in vain, in the order of the questions."""
        return tuple(self._misses)

    def add(self, entry: Entry) -> None:
        """Keep an entry unless there is a better one: a faster, or as fast with a lesser text."""
        known = self._entries.get(entry.key)
        if known is None or _order(entry) < _order(known):
            self._entries[entry.key] = entry

    def merge(self, other: Records) -> None:
        """Add all entries of the other; the order of merging does not matter."""
        for entry in other._entries.values():
            self.add(entry)

    @classmethod
    def load(cls, paths: Iterable[str | Path]) -> Records:
        """Read and merge record files.

        Raises:
            RecordError: a file cannot be read, is damaged, or has another version.
        """
        records = cls()
        for path in paths:
            for entry in _read(Path(path)):
                records.add(entry)
        return records

    def save(self, path: str | Path) -> None:
        """Write a record file: whole or not at all, an interruption leaves the old one.

        Raises:
            DestinationError: the file cannot be written.
        """
        lines = ",\n    ".join(entry.text for entry in self)
        body = f"\n    {lines}\n  " if lines else ""
        text = f'{{\n  "format": "{FORMAT}",\n  "version": {VERSION},\n  "entries": [{body}]\n}}\n'
        write_bytes(path, text.encode())


def _order(entry: Entry) -> tuple[float, str]:
    return (round(entry.time_us, 3), entry.text)


# Reading. A place is a path into the file, e.g. "entries[3].key.sizes".


def _read(path: Path) -> Iterator[Entry]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecordError(f"cannot read tuning record {path}: {error}") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise RecordError(
            f"tuning record {path} is no whole JSON file ({error}). It may have been cut off; "
            "make it again with `aoti-plugins tune`."
        ) from error
    try:
        yield from _entries(content)
    except _FaultError as fault:
        raise RecordError(f"tuning record {path} is malformed: {fault}") from fault


class _FaultError(Exception):
    """What is wrong, with its place."""


def _entries(content: Any) -> Iterator[Entry]:
    _expect(isinstance(content, dict), "the file", "an object", content)
    if content.get("format") != FORMAT:
        raise _FaultError(f"format is {content.get('format')!r}, expected {FORMAT!r}")
    version = content.get("version")
    if version != VERSION or isinstance(version, bool):
        raise _FaultError(f"version is {version!r}, this version of aoti_plugins reads {VERSION}")
    unknown = sorted(set(content) - {"format", "version", "entries"})
    if unknown:
        raise _FaultError(f"unknown fields {', '.join(unknown)}")
    entries = content.get("entries")
    _expect(isinstance(entries, list), "entries", "a list", entries)
    for index, one in enumerate(entries):
        yield _entry(one, f"entries[{index}]")


def _entry(one: Any, place: str) -> Entry:
    _expect(isinstance(one, dict), place, "an object", one)
    if set(one) != set(_FIELDS):
        raise _FaultError(f"{place} has fields {sorted(one)}, expected {sorted(_FIELDS)}")
    _expect(one["kind"] in KINDS, f"{place}.kind", " or ".join(KINDS), one["kind"])
    _flat(one["key"], f"{place}.key", nested=True)
    _flat(one["config"], f"{place}.config", nested=False)
    time = one["time_us"]
    is_number = isinstance(time, int | float) and not isinstance(time, bool)
    _expect(is_number and 0 < time < 1e12, f"{place}.time_us", "a positive number", time)
    _flat(one["made_with"], f"{place}.made_with", nested=False)
    for name, value in one["made_with"].items():
        _expect(isinstance(value, str), f"{place}.made_with.{name}", "a string", value)
    return Entry(_frozen_key(one["kind"], one["key"]), one["config"], time, one["made_with"])


def _flat(value: Any, place: str, *, nested: bool) -> None:
    """Check an object of strings and whole numbers, and of such objects if ``nested``."""
    _expect(isinstance(value, dict) and bool(value), place, "an object that is not empty", value)
    for name, item in value.items():
        where = f"{place}.{name}"
        if nested and isinstance(item, dict):
            _flat(item, where, nested=False)
        elif isinstance(item, bool) or not isinstance(item, str | int):
            _expect(False, where, "a string or a whole number", item)


def _expect(is_so: bool, place: str, expected: str, found: Any) -> None:
    if not is_so:
        raise _FaultError(f"{place} must be {expected}, found {_shortened(found)}")


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
