"""The built-in naming policies."""

from __future__ import annotations

import threading

import pytest

from aoti_plugins import blob_names
from aoti_plugins.blob_names import ReadableNames
from aoti_plugins.plugin_system.manager import PluginManager
from aoti_plugins.types import BlobName

A, B, C = "a1" * 32, "b2" * 32, "b2" * 31 + "c3"


@pytest.fixture
def manager() -> PluginManager:
    manager = PluginManager(load_entry_points=False)
    manager.register(blob_names, "blob_names")
    return manager


@pytest.fixture
def readable(manager: PluginManager) -> PluginManager:
    manager.register(ReadableNames(), "readable")
    return manager


@pytest.mark.parametrize("kind", ["so", "weights"])
def test_default_is_the_content(manager: PluginManager, kind: str) -> None:
    assert manager.blob_name(kind, "cpu", "forward", A) == f"{A}_{kind}_blob"
    assert manager.blob_name(kind, "cuda", "other", A) == f"{A}_{kind}_blob"


def test_readable_names(readable: PluginManager) -> None:
    assert readable.blob_name("so", "cpu", "forward", A) == "forward_so_blob"
    assert readable.blob_name("weights", "cpu", "forward", A) == "forward_weights_blob"
    assert readable.blob_name("so", "cpu", "encode", A) == "encode_so_blob"


def test_second_partition_gets_a_digest(readable: PluginManager) -> None:
    names = [readable.blob_name("so", "cpu", "forward", digest) for digest in (A, B, A, B)]
    assert names == ["forward_so_blob", "forward_so_blob_b2b2b2b2"] * 2


def test_digests_with_a_common_start_stay_apart(readable: PluginManager) -> None:
    names = [readable.blob_name("so", "cpu", "forward", digest) for digest in (A, B, C)]
    assert names[1:] == ["forward_so_blob_b2b2b2b2", "forward_so_blob_b2b2b2b2b"]


def test_devices_share_the_names_of_one_program(readable: PluginManager) -> None:
    assert readable.blob_name("so", "cpu", "forward", A) == "forward_so_blob"
    assert readable.blob_name("so", "cuda", "forward", B) == "forward_so_blob_b2b2b2b2"


def test_external_tag(readable: PluginManager) -> None:
    name = readable.blob_name("so", "cuda", "forward", A)
    assert isinstance(name, BlobName)
    assert name.external_tag == "aoti_cuda_blob"
    inline = ReadableNames(external=False).aoti_blob_name("so", "cuda", "forward", A)
    assert isinstance(inline, BlobName)
    assert inline.external_tag is None


def test_method_that_is_not_ascii_is_named_by_content(readable: PluginManager) -> None:
    assert readable.blob_name("so", "cpu", "größe", A) == f"{A}_so_blob"


def test_threads_get_one_plain_name() -> None:
    policy = ReadableNames()
    digests = [f"{i:064x}" for i in range(200)]
    names: dict[str, set[str]] = {digest: set() for digest in digests}
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        for digest in digests:
            names[digest].add(policy.aoti_blob_name("so", "cpu", "forward", digest) or "")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(found) == 1 for found in names.values())
    assert len({name for found in names.values() for name in found}) == len(digests)
