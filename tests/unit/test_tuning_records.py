"""Tuning records: what is written is read back, merging has no order, damage is named."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aoti_plugins.cuda.target import target_by_name
from aoti_plugins.cuda.tuning.records import (
    FORMAT,
    Entry,
    Key,
    RecordError,
    Records,
    kernel_key,
    product_key,
)
from aoti_plugins.errors import DestinationError

H100 = target_by_name("h100")
KEY = kernel_key(H100, "5b1f", {"x": 1024})
ENTRY = Entry(KEY, {"XBLOCK": 256, "num_warps": 4}, 1.5, {"torch": "2.13.0"})

names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
values = st.one_of(names, st.integers(-(2**62), 2**62))
flat = st.dictionaries(names, values, min_size=1, max_size=4)
keys = st.one_of(
    st.builds(
        lambda source, sizes: kernel_key(H100, source, sizes),
        names,
        st.dictionaries(names, st.integers(0, 2**31), max_size=3),
    ),
    st.builds(
        lambda m, n: product_key(H100, "mm", (1, m, n, 64), "bfloat16", "row,column"),
        st.integers(1, 3),
        st.integers(1, 3),
    ),
)
entries = st.builds(
    Entry,
    keys,
    flat,
    st.floats(0.001, 1e6, allow_nan=False),
    st.dictionaries(names, names, min_size=1, max_size=2),
)


def _texts(records: Records) -> list[str]:
    return [entry.text for entry in records]


@given(st.lists(entries, max_size=6))
def test_written_and_read_back(tmp_path_factory: pytest.TempPathFactory, some: list[Entry]) -> None:
    path = tmp_path_factory.mktemp("records") / "r.json"
    records = Records(some)
    records.save(path)
    assert _texts(Records.load([path])) == _texts(records)
    again = path.read_bytes()
    Records.load([path]).save(path)
    assert path.read_bytes() == again


@given(st.lists(entries, max_size=5), st.randoms())
def test_order_does_not_matter(some: list[Entry], random: Any) -> None:
    shuffled = list(some)
    random.shuffle(shuffled)
    parts = [Records(shuffled[::2]), Records(shuffled[1::2])]
    merged = Records()
    for part in parts:
        merged.merge(part)
    assert _texts(merged) == _texts(Records(some))


def test_the_faster_entry_stays() -> None:
    slow = Entry(KEY, {"XBLOCK": 512}, 2.0, {"torch": "2.13.0"})
    for order in itertools.permutations((ENTRY, slow)):
        assert Records(order).find(KEY) == ENTRY


def test_hits_and_misses() -> None:
    records = Records([ENTRY])
    other = product_key(H100, "mm", (1, 4, 64, 256), "float32", "row,column")
    assert records.find(KEY) == ENTRY
    assert records.find(other) is None
    assert records.find(other) is None
    assert records.hits == (KEY,)
    assert records.misses == (other,)
    assert str(other) == "mm 4×64×256 float32 on sm_90a"
    assert str(KEY) == "kernel 5b1f (x=1024) on sm_90a"


def test_keys_differ_by_target() -> None:
    a100 = target_by_name("a100")
    assert kernel_key(a100, "5b1f", {"x": 1024}) != KEY
    assert kernel_key(target_by_name("h200"), "5b1f", {"x": 1024}) == KEY


def test_an_interruption_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "r.json"
    Records().save(path)
    before = path.read_bytes()

    def interrupted(handle: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Records([ENTRY]).save(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["r.json"]


def test_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(DestinationError, match=r"cannot write '.*r.json': there is no folder"):
        Records().save(tmp_path / "no" / "r.json")


def _file(**changes: Any) -> str:
    content = {"format": FORMAT, "version": 1, "entries": [ENTRY.as_json()], **changes}
    return json.dumps(content)


def _changed(**changes: Any) -> str:
    return _file(entries=[{**ENTRY.as_json(), **changes}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no whole JSON file"),
        (_file()[:-20], "no whole JSON file.*cut off"),
        ("[]", "the file must be an object"),
        (_file(format="other"), "format is 'other'"),
        (_file(version=2), "version is 2, this version of aoti_plugins reads 1"),
        (_file(version=True), "version is True"),
        (_file(version="1"), "version is '1'"),
        (_file(date="today"), "unknown fields date"),
        (_file(entries={}), "entries must be a list"),
        (_file(entries=[1]), r"entries\[0\] must be an object, found 1"),
        (_file(entries=[{"kind": "kernel"}]), r"entries\[0\] has fields \['kind'\]"),
        (_changed(kind="cpu"), r"entries\[0\]\.kind must be kernel or product, found 'cpu'"),
        (_changed(kind=[]), r"entries\[0\]\.kind must be kernel or product"),
        (_changed(key={}), r"entries\[0\]\.key must be an object that is not empty"),
        (_changed(key={"sizes": {"x": 1.5}}), r"\.key\.sizes\.x must be a string or a whole"),
        (_changed(config={"a": {"b": 1}}), r"\.config\.a must be a string or a whole number"),
        (_changed(config={"a": True}), r"\.config\.a must be .* found True"),
        (_changed(time_us="1"), r"\.time_us must be a positive number, found '1'"),
        (_changed(time_us=-1), r"\.time_us must be a positive number"),
        (_changed(time_us=float("nan")), r"\.time_us must be a positive number, found nan"),
        (_changed(made_with={"torch": 2}), r"\.made_with\.torch must be a string, found 2"),
    ],
)
def test_malformed_files(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(RecordError, match=rf"(?s)tuning record .*r\.json.*{message}"):
        Records.load([path])


def test_no_file_and_no_text(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"cannot read tuning record .*none\.json"):
        Records.load([tmp_path / "none.json"])
    (tmp_path / "r.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="no whole JSON file"):
        Records.load([tmp_path / "r.json"])


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("records") / "r.json"
    path.write_bytes(data)
    with pytest.raises(RecordError):
        Records.load([path])


def test_keys_can_be_sorted_and_shown() -> None:
    assert str(Key("kernel", (("arch", "sm_80"),))) == "kernel None () on sm_80"
