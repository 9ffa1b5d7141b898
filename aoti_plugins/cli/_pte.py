"""Takes a program file apart: methods, delegates, payloads, blobs."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aoti_plugins import payload as payloads
from aoti_plugins.cli._quiet import quiet
from aoti_plugins.compile_specs import INTERFACE_COMPILE_SPEC_KEY, without_interface
from aoti_plugins.dtypes import dtype_name
from aoti_plugins.errors import PayloadError, ProgramError
from aoti_plugins.interface import contents
from aoti_plugins.payload import pte_header
from aoti_plugins.payload.header import MAGIC
from aoti_plugins.signing.program_file import parsed

_OUR_BACKENDS = "Aoti"


def inspect_program(path: Path, data: bytes | None = None) -> dict[str, Any]:
    """Describe a program file in types that JSON has.

    Args:
        path: of the file.
        data: its bytes, where they are known already or cannot be read there.

    Raises:
        ProgramError: the file is missing, truncated, or no ExecuTorch program.
    """
    if data is None:
        if not path.is_file():
            raise ProgramError(f"there is no file {str(path)!r}")
        data = path.read_bytes()
    file = _parse(data, path)
    blobs = _named_data(file)
    used: dict[str, list[str]] = {key: [] for key in blobs}
    methods = [_method(plan, file, used) for plan in file.program.execution_plan]
    return {
        "file": str(path),
        "nbytes": len(data),
        "methods": methods,
        "named_data": [
            {
                "key": key,
                "nbytes": len(blob),
                "used_by": used[key],
                **_elf_facts(blob),
            }
            for key, blob in blobs.items()
        ],
    }


def delegates_of(path: Path, method: str) -> list[tuple[str, list[Any]]]:
    """The ids and compile specs of a method's delegates.

    Raises:
        ProgramError: as for ``inspect_program``.
    """
    _, plan = _plan_of(path, method)
    return [(one.id, list(one.compile_specs)) for one in plan.delegates]


@dataclass(frozen=True)
class MethodPlan:
    """What ExecuTorch does for a method, as far as a profile shows it.

    Attributes:
        delegate_of: the index of the delegate by that of the instruction that calls it.
        kernels: by delegate and target, what the program says of kernels.
        outside: ops that ExecuTorch runs itself, sorted, without repeats.
        memory: what is planned, each with its bytes.
        device: that the delegates were lowered for; ``"cpu"`` where none is ours.
    """

    delegate_of: Mapping[int, int]
    kernels: tuple[tuple[tuple[payloads.KernelRef, ...], ...], ...]
    outside: tuple[str, ...]
    memory: tuple[tuple[str, int], ...]
    device: str


def method_plan(path: Path, method: str) -> MethodPlan:
    """Read what a profile needs to know of a method.

    Raises:
        ProgramError: as for ``inspect_program``.
    """
    file, plan = _plan_of(path, method)
    calls = [one.instr_args for chain in plan.chains[:1] for one in chain.instructions]
    delegates = {
        index: call.delegate_index
        for index, call in enumerate(calls)
        if hasattr(call, "delegate_index")
    }
    found = [_payload_of(file, delegate) for delegate in plan.delegates]
    arenas = [
        (f"planned for values, arena {index}", nbytes)
        for index, nbytes in enumerate(plan.non_const_buffer_sizes)
        if nbytes
    ]
    weights = [
        (f"weights of delegate {index}", sum(storage.nbytes for storage in one.storages))
        for index, one in enumerate(found)
        if one is not None
    ]
    return MethodPlan(
        delegate_of=delegates,
        kernels=tuple(
            tuple(target.kernels for target in one.targets) if one is not None else ()
            for one in found
        ),
        outside=tuple(_operators(plan)),
        memory=(*arenas, *weights),
        device=next((one.device for one in found if one is not None), "cpu"),
    )


def _plan_of(path: Path, method: str) -> tuple[Any, Any]:
    """A program and what it says of one of its methods."""
    file = _parse(path.read_bytes(), path)
    (plan,) = (plan for plan in file.program.execution_plan if plan.name == method)
    return file, plan


def _operators(plan: Any) -> list[str]:
    """Names of the ops outside of delegates, sorted."""
    return sorted({f"{op.name}.{op.overload}" if op.overload else op.name for op in plan.operators})


def _payload_of(file: Any, delegate: Any) -> payloads.Payload | None:
    """A delegate's payload; ``None`` where it is not ours."""
    data = _processed(file, delegate)
    try:
        return payloads.decode(data) if data.startswith(MAGIC) else None
    except PayloadError:
        return None


def _processed(file: Any, delegate: Any) -> bytes:
    return bytes(file.program.backend_delegate_data[delegate.processed.index].data)


def _parse(data: bytes, path: Path) -> Any:
    problem = pte_header.problem(data[: pte_header.HEAD_NBYTES], len(data))
    if problem:
        raise ProgramError(f"{str(path)!r} {problem}")
    quiet()
    from executorch.exir._serialize._program import deserialize_pte_binary

    return parsed(path, "an ExecuTorch program", deserialize_pte_binary, data)


def _named_data(file: Any) -> dict[str, bytes]:
    store = file.named_data
    if store is None:
        return {}
    return {
        key: bytes(store.buffers[getattr(entry, "buffer_index", entry)])
        for key, entry in store.pte_data.items()
    }


def _method(plan: Any, file: Any, used: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "name": plan.name,
        "inputs": [_value(plan.values[index]) for index in plan.inputs],
        "outputs": [_value(plan.values[index]) for index in plan.outputs],
        "interface": _interface(plan),
        "operators": _operators(plan),
        "memory_nbytes": sum(plan.non_const_buffer_sizes),
        "delegates": [
            _delegate(delegate, f"{plan.name}[{index}]", file, used)
            for index, delegate in enumerate(plan.delegates)
        ],
    }


def _interface(plan: Any) -> dict[str, Any] | None:
    """How the method is called, where one of its delegates says it."""
    specs = [spec for delegate in plan.delegates for spec in delegate.compile_specs]
    for spec in specs:
        if spec.key == INTERFACE_COMPILE_SPEC_KEY:
            try:
                known = contents.decode(bytes(spec.value))
            except ProgramError as error:
                return {"error": str(error)}
            return None if known is None else _interface_facts(known)
    return None


def _interface_facts(known: contents.Interface) -> dict[str, Any]:
    texts = {
        "inputs_text": list(map(str, known.inputs)),
        "outputs_text": list(map(str, known.outputs)),
    }
    return {**asdict(known), **texts}


def _value(value: Any) -> str:
    kind = type(value.val).__name__
    if kind != "Tensor":
        return kind.lower()
    dynamic = " (dynamic)" if int(value.val.shape_dynamism) else ""
    return f"{dtype_name(int(value.val.scalar_type))}{list(value.val.sizes)}{dynamic}"


def _delegate(delegate: Any, name: str, file: Any, used: dict[str, list[str]]) -> dict[str, Any]:
    data = _processed(file, delegate)
    facts: dict[str, Any] = {"id": delegate.id, "payload_nbytes": len(data)}
    given = without_interface(delegate.compile_specs)
    facts["compile_specs"] = {spec.key: _printable(spec.value) for spec in given}
    if not (delegate.id.startswith(_OUR_BACKENDS) or data.startswith(MAGIC)):
        return facts
    try:
        payload = payloads.decode(data)
    except PayloadError as error:
        return {**facts, "payload_error": str(error)}
    for key in _keys(payload):
        if name not in used.setdefault(key, []):
            used[key].append(name)
    return {**facts, "payload": _payload_facts(payload)}


def _keys(payload: payloads.Payload) -> Iterator[str]:
    """Names of a payload's blobs; of what each rank has its own, that of all ranks' digests."""
    yield from (one.artifact_key for one in payload.targets)
    yield from (payload.rank_table_key(one) or one.key for one in payload.storages)


def _printable(value: bytes) -> str:
    text = bytes(value).decode(errors="replace")
    return text if text.isprintable() else bytes(value).hex()


def _payload_facts(payload: payloads.Payload) -> dict[str, Any]:
    """Turn a payload into JSON types, with names instead of codes."""
    facts = asdict(payload)
    facts["built_with"] = dict(payload.built_with)
    facts["flags"] = [str(one.name).lower() for one in payloads.PayloadFlag if one & payload.flags]
    facts["signatures"] = [one.key.hex() for one in payload.signatures]
    for storage in facts["storages"]:
        storage["sha256"] = storage["sha256"].hex()
    for target in facts["targets"]:
        target["artifact_sha256"] = target["artifact_sha256"].hex()
        target["artifact_kind"] = target["artifact_kind"].name.lower()
    for constant in facts["constants"]:
        constant["kind"] = constant["kind"].name.lower()
        constant["dtype"] = dtype_name(constant["dtype"])
    for value in (*facts["inputs"], *facts["outputs"]):
        value["kind"] = value["kind"].name.lower()
        value["dtype"] = dtype_name(value["dtype"]) if value["kind"] == "tensor" else None
    return facts


def _elf_facts(blob: bytes) -> dict[str, Any]:
    """Say what a shared object needs; nothing for weights."""
    if not blob.startswith(b"\x7fELF"):
        return {"kind": "weights"}
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile

    try:
        elf = ELFFile(io.BytesIO(blob))
        sections = [one for one in elf.iter_sections() if isinstance(one, DynamicSection)]
        needed = [t.needed for section in sections for t in section.iter_tags("DT_NEEDED")]
        return {"kind": "shared object", "machine": elf.get_machine_arch(), "needed": needed}
    except (ELFError, OSError, ValueError) as error:
        return {"kind": "shared object", "error": str(error)}
