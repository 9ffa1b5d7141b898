"""The typed results of hooks refuse wrong values where they are made."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aoti_plugins.errors import AotiPluginsError, PluginConflictError
from aoti_plugins.types import (
    BlobName,
    BuiltinRuntime,
    CShim,
    FallbackKernel,
    GraphPass,
    LinkedObjects,
    ProgressEvent,
    SharedLibrary,
    Target,
)

SHIM = CShim(
    "aoti_torch_cpu_mm_out",
    "AOTITorchError aoti_torch_cpu_mm_out(AtenTensorHandle out, AtenTensorHandle self)",
)


def run(program: Any) -> None:
    del program


GOOD: dict[str, Callable[..., object]] = {
    "kernel": lambda **kw: FallbackKernel(**{"op": "aten::mm.out", "c_shims": (SHIM,)} | kw),
    "shim": lambda **kw: CShim(**{"name": SHIM.name, "declaration": SHIM.declaration} | kw),
    "library": lambda **kw: SharedLibrary(
        **{"path": "/opt/libx.so", "soname": "libx.so", "version": "1"} | kw
    ),
    "objects": lambda **kw: LinkedObjects(**{"paths": ("x.o",)} | kw),
    "pass": lambda **kw: GraphPass(**{"name": "acme.fuse", "run": run} | kw),
    "target": lambda **kw: Target(**{"name": "h100", "device": "cuda", "machine": "x86_64"} | kw),
    "event": lambda **kw: ProgressEvent(
        **{
            "stage": "compile",
            "status": "start",
            "device": "cpu",
            "method": "forward",
            "partition": 0,
            "partitions": 1,
        }
        | kw
    ),
}

WRONG = [
    ("shim", {"name": "a-b"}, "CShim.name must be a C identifier, found 'a-b'"),
    ("shim", {"name": "größe"}, "CShim.name must be a C identifier, found 'größe'"),
    ("shim", {"name": ""}, "CShim.name must not be empty"),
    ("shim", {"declaration": b"x"}, "CShim.declaration must be a str, found bytes"),
    (
        "shim",
        {"declaration": "int aoti_torch_cpu_mm(void)"},
        "CShim.declaration must declare the function 'aoti_torch_cpu_mm_out', "
        "found 'int aoti_torch_cpu_mm(void)'",
    ),
    (
        "library",
        {"soname": "lib/x.so"},
        "SharedLibrary.soname must not be a path, found 'lib/x.so'",
    ),
    ("library", {"version": ""}, "SharedLibrary.version must not be empty"),
    ("objects", {"paths": ()}, "LinkedObjects.paths must name at least one file"),
    ("objects", {"paths": "x.o"}, "LinkedObjects.paths must be a tuple of str, found str"),
    (
        "kernel",
        {"op": "aten.mm.out"},
        "FallbackKernel.op must be a schema name like 'aten::mm.out', found 'aten.mm.out'",
    ),
    ("kernel", {"c_shims": ()}, "FallbackKernel.c_shims of 'aten::mm.out' must not be empty"),
    (
        "kernel",
        {"c_shims": [SHIM]},
        "FallbackKernel.c_shims must be a tuple of CShim, found list",
    ),
    (
        "kernel",
        {"c_shims": ("mm",)},
        "FallbackKernel.c_shims must be a tuple of CShim, found an item of type str",
    ),
    (
        "kernel",
        {"c_shims": (SHIM, SHIM)},
        "FallbackKernel.c_shims of 'aten::mm.out' names a shim twice: "
        "['aoti_torch_cpu_mm_out', 'aoti_torch_cpu_mm_out']",
    ),
    ("kernel", {"dtypes": "float32"}, "FallbackKernel.dtypes must be a tuple of str, found str"),
    ("kernel", {"reference": 3}, "FallbackKernel.reference must be callable, found int"),
    (
        "kernel",
        {"provider": "libx.so"},
        "FallbackKernel.provider must be BuiltinRuntime, SharedLibrary or LinkedObjects, found str",
    ),
    ("pass", {"run": None}, "GraphPass.run must be callable, found NoneType"),
    ("pass", {"before": "x"}, "GraphPass.before must be a tuple of str, found str"),
    ("pass", {"after": ("",)}, "GraphPass.after must not hold an empty str"),
    (
        "pass",
        {"after": ("acme.fuse",)},
        "GraphPass 'acme.fuse' must not be ordered against itself",
    ),
    ("target", {"machine": ""}, "Target.machine must not be empty"),
    ("target", {"features": ["avx2"]}, "Target.features must be a tuple of str, found list"),
    ("target", {"properties": [1]}, "Target.properties must be a mapping, found list"),
    (
        "event",
        {"status": "done"},
        "ProgressEvent.status must be one of start, end, fail, found 'done'",
    ),
    (
        "event",
        {"partition": 1},
        "ProgressEvent.partition must be in [0, partitions), found 1 of 1",
    ),
    (
        "event",
        {"partition": -1},
        "ProgressEvent.partition must be in [0, partitions), found -1 of 1",
    ),
    ("event", {"seconds": -0.5}, "ProgressEvent.seconds must not be negative, found -0.5"),
    ("event", {"stage": ""}, "ProgressEvent.stage must not be empty"),
]


@pytest.mark.parametrize("kind", GOOD)
def test_good_values(kind: str) -> None:
    value = GOOD[kind]()
    assert value == GOOD[kind]()
    assert hash(value) == hash(GOOD[kind]())
    assert pickle.loads(pickle.dumps(value)) == value
    field = dataclasses.fields(value)[0].name  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(value, field, "other")


@pytest.mark.parametrize(("kind", "change", "message"), WRONG)
def test_wrong_values(kind: str, change: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        GOOD[kind](**change)
    assert str(caught.value) == message


def test_paths_lists_and_ops_are_taken_as_they_come() -> None:
    import torch

    assert LinkedObjects([Path("a.o"), "b.o"]).paths == ("a.o", "b.o")
    assert SharedLibrary(Path("/x/l.so"), "l.so", "1").path == "/x/l.so"
    for op, name in ((torch.ops.aten.mm.out, "aten::mm.out"), (torch.ops.aten.mm.default, None)):
        kernel = FallbackKernel(op, (SHIM,))
        assert kernel == FallbackKernel(name or "aten::mm", (SHIM,))


def test_unknown_dtype_lists_the_known() -> None:
    with pytest.raises(ValueError, match=r"unknown names \['float31'\]; known are uint8, .*, "):
        FallbackKernel("aten::mm.out", (SHIM,), dtypes=("float32", "float31"))


@pytest.mark.parametrize(
    "provider", [BuiltinRuntime(), SharedLibrary("/x/l.so", "l.so", "1"), LinkedObjects(("a.o",))]
)
def test_providers(provider: Any) -> None:
    kernel = FallbackKernel("acme::op", (SHIM,), ("float32",), provider, reference=max)
    assert kernel.provider == provider


def test_target_copies_its_properties() -> None:
    properties = {"major": 9}
    target = Target("h100", "cuda", "x86_64", properties=properties)
    properties["major"] = 10
    assert target.properties == {"major": 9}


@pytest.mark.parametrize("duplicate", [copy.copy, lambda v: pickle.loads(pickle.dumps(v))])
def test_blob_name_is_a_str_with_a_tag(duplicate: Callable[[BlobName], BlobName]) -> None:
    name = BlobName("forward_so_blob", "aoti_cpu_blob")
    assert name == "forward_so_blob"
    assert duplicate(name).external_tag == "aoti_cpu_blob"
    assert BlobName("forward_so_blob").external_tag is None


def test_conflict_error_survives_a_process_boundary() -> None:
    error = pickle.loads(pickle.dumps(PluginConflictError(("one", "two"))))
    assert isinstance(error, AotiPluginsError)
    assert error.conflicts == ("one", "two")
    assert str(error) == "one\n\ntwo"
