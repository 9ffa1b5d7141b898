"""A process that demands signatures runs what was signed, and nothing else."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from signing_support import KeyPair, Scaled, X

from aoti_plugins import payload as payloads
from aoti_plugins.payload.signatures import BLOCK_NBYTES, block
from aoti_plugins.signing.program_file import ProgramFile
from aoti_plugins.signing.sign import sign_program
from aoti_plugins.signing.verify import verify_program

DATA = "aoti_cpu_blob.ptd"

RUN = """
import json, sys
from aoti_plugins.errors import AotiPluginsError
from aoti_plugins.runtime import Program, require_signatures
import numpy

demands, cases = json.loads(sys.argv[1])
results = {}
for keys, whole_files in demands:
    require_signatures(keys, whole_files=whole_files)
for name, (path, data) in cases.items():
    try:
        with Program(path, data_files=data) as program:
            (result,) = program(numpy.ones((2, 64), "float32"))
            results[name] = float(result.sum())
    except AotiPluginsError as error:
        results[name] = str(error)
print("RESULTS" + json.dumps(results))
"""

Cases = dict[str, tuple[str, list[str]]]


def results_of(
    run_python: Callable[..., str],
    cases: Cases,
    keys: list[Path],
    *more: list[Path],
    whole_files: bool = False,
    **environment: str,
) -> dict[str, Any]:
    """What each case gives in one process with these demands: a sum or a reason."""
    demands = [([str(key) for key in some], whole_files) for some in (keys, *more) if some]
    printed = run_python(RUN, json.dumps([demands, cases]), **environment)
    line = next(line for line in printed.splitlines() if line.startswith("RESULTS"))
    found: dict[str, Any] = json.loads(line.removeprefix("RESULTS"))
    return found


EXPECTED = float(Scaled().forward(X).detach().sum())


@dataclass
class Tampered:
    """Copies of the signed programs with changes."""

    folder: Path
    cases: Cases

    def add(self, name: str, source: Path, change: Callable[[bytearray], bytes | None]) -> None:
        path = self.folder / f"{len(self.cases)}.pte"
        data = bytearray(source.read_bytes())
        replaced = change(data)
        path.write_bytes(data if replaced is None else replaced)
        self.cases[name] = (str(path), [])


def _payload_of(path: Path) -> tuple[int, payloads.Payload, bytes]:
    (place,) = ProgramFile(path).payloads
    (offset,) = place.offsets
    return offset, payloads.decode(place.data), place.data


def _flip(at: int) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at] ^= 1

    return change


def _put(at: int, new: bytes) -> Callable[[bytearray], None]:
    def change(data: bytearray) -> None:
        data[at : at + len(new)] = new

    return change


@pytest.fixture(scope="module")
def found(
    run_python: Callable[..., str],
    signed: Path,
    unsigned: Path,
    key: KeyPair,
    stranger: KeyPair,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """What became of each tampering, and of what nobody has touched."""
    folder = tmp_path_factory.mktemp("tampered")
    tampered = Tampered(folder, {})
    inside, outside, data = (signed / name for name in ("inside.pte", "outside.pte", DATA))
    at, payload, raw = _payload_of(inside)
    room = at + len(raw) - BLOCK_NBYTES
    whole = inside.read_bytes()
    code = payload.targets[0]
    (weights,) = payload.storages
    weights_at = whole.index(Scaled().weight.detach().numpy().tobytes())
    code_at = whole.index(b"\x7fELF")
    tampered.cases.update(
        untouched=(str(inside), []),
        untouched_outside=(str(outside), [str(data)]),
        unsigned=(str(unsigned / "inside.pte"), []),
    )
    add = tampered.add
    add("code", inside, _flip(code_at + code.artifact_nbytes // 2))
    add("weights", inside, _flip(weights_at + weights.nbytes // 2))
    add("signature", inside, _put(room, _resealed(payload, flip_at=32)))
    add("key in the payload", inside, _put(room, _resealed(payload, flip_at=0)))
    add("damaged signature", inside, _flip(room + 40))
    add("stripped signature", inside, _put(room, block()))
    other_flags = replace(payload, flags=payload.flags ^ payloads.PayloadFlag.TF32_MATMUL)
    add("payload", inside, _put(at, payloads.encode(other_flags)))
    other_weights = folder / DATA
    shutil.copy(data, other_weights)
    damaged = bytearray(other_weights.read_bytes())
    damaged[damaged.index(Scaled().weight.detach().numpy().tobytes()) + 100] ^= 1
    other_weights.write_bytes(damaged)
    tampered.cases["data file"] = (str(outside), [str(other_weights)])
    by_stranger, by_both = folder / "stranger.pte", folder / "both.pte"
    sign_program(unsigned / "inside.pte", stranger.signer, by_stranger)
    sign_program(inside, stranger.signer, by_both)
    tampered.cases.update(stranger=(str(by_stranger), []), both=(str(by_both), []))
    return results_of(run_python, tampered.cases, [key.public])


def _resealed(payload: payloads.Payload, flip_at: int) -> bytes:
    """The room with a bit changed, and its checksum made right again."""
    slots = bytearray(block(payload.signatures)[:-4])
    slots[flip_at] ^= 1
    return bytes(slots) + struct.pack("<I", zlib.crc32(slots))


@pytest.mark.parametrize("name", ["untouched", "untouched_outside", "both"])
def test_signed_programs_run(found: dict[str, Any], name: str) -> None:
    assert found[name] == pytest.approx(EXPECTED, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unsigned", "the program has no signature, and this process runs signed programs only"),
        ("stripped signature", "the program has no signature, and this process runs signed"),
        ("stranger", "is signed by 1 key, of which none is one of the 1 that this process trusts"),
        ("key in the payload", "is signed by 1 key, of which none is one of the 1 that this"),
        ("signature", "a signature of the program is wrong: the payload is not the one that was"),
        ("damaged signature", "payload: signatures_crc32 at byte"),
        ("payload", "a signature of the program is wrong"),
        ("code", "sha256 of blob"),
        ("weights", "sha256 of the weights"),
        ("data file", "sha256 of the weights"),
    ],
)
def test_a_tampered_program_is_refused(found: dict[str, Any], name: str, reason: str) -> None:
    assert reason in str(found[name])


def test_without_a_demand_changed_weights_run(
    run_python: Callable[..., str], signed: Path, tmp_path: Path
) -> None:
    """What signatures are for: nobody else looks at gigabytes."""
    data = bytearray((signed / "inside.pte").read_bytes())
    at = data.index(Scaled().weight.detach().numpy().tobytes())
    data[at + 3] ^= 0x40
    (tmp_path / "changed.pte").write_bytes(data)
    found = results_of(run_python, {"changed": (str(tmp_path / "changed.pte"), [])}, [])
    assert isinstance(found["changed"], float)
    assert found["changed"] != pytest.approx(EXPECTED, rel=1e-4, abs=1e-3)
    report = verify_program(tmp_path / "changed.pte")
    assert not report.ok
    assert "weights" in report.delegates[0].problems[0]


def test_every_demand_has_to_be_met(
    run_python: Callable[..., str],
    signed: Path,
    key: KeyPair,
    stranger: KeyPair,
    tmp_path: Path,
) -> None:
    sign_program(signed / "inside.pte", stranger.signer, tmp_path / "both.pte")
    cases: Cases = {
        "one": (str(signed / "inside.pte"), []),
        "both": (str(tmp_path / "both.pte"), []),
    }
    found = results_of(run_python, cases, [key.public], [stranger.public])
    assert "none is one of the 1 that this process trusts" in found["one"]
    assert found["both"] == pytest.approx(EXPECTED, rel=1e-4, abs=1e-3)
    found = results_of(run_python, cases, [key.public, stranger.public])
    assert isinstance(found["one"], float)  # one of a list suffices


VARIABLE = "AOTI_PLUGINS_REQUIRE_SIGNATURES"


def test_the_environment_demands(
    run_python: Callable[..., str],
    signed: Path,
    unsigned: Path,
    key: KeyPair,
    stranger: KeyPair,
) -> None:
    cases: Cases = {
        "signed": (str(signed / "inside.pte"), []),
        "unsigned": (str(unsigned / "inside.pte"), []),
    }
    paths = f"{stranger.public}:{key.public}"
    found = results_of(run_python, cases, [], **{VARIABLE: paths})
    assert isinstance(found["signed"], float)
    assert "the program has no signature" in found["unsigned"]
    found = results_of(run_python, cases, [], **{VARIABLE: str(stranger.public)})
    assert "none is one of the 1 that this process trusts" in found["signed"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "cannot be read: No such file"),
        ("empty", "holds no public key"),
        ("cut off", "is cut off"),
        ("cut off in the key", "holds a public key that is not of Ed25519"),
        ("private", "holds no public key"),
        ("no PEM", "is not PEM"),
        ("", "it names no file"),
    ],
)
def test_a_key_file_that_cannot_be_used_lets_nothing_run(
    run_python: Callable[..., str],
    signed: Path,
    key: KeyPair,
    tmp_path: Path,
    name: str,
    reason: str,
) -> None:
    text = key.public.read_text()
    lines = text.splitlines()
    contents = {
        "empty": "",
        "cut off": text[:60],
        "cut off in the key": "\n".join([lines[0], lines[1][:40], lines[2]]),
        "private": key.private.read_text(),
        "no PEM": "\n".join([lines[0], "?" * 60, lines[2]]),
    }
    path = tmp_path / "key.pem"
    if name in contents:
        path.write_text(contents[name])
    cases: Cases = {"signed": (str(signed / "inside.pte"), [])}
    found = results_of(run_python, cases, [], **{VARIABLE: str(path) if name else ""})
    assert "no program is run: AOTI_PLUGINS_REQUIRE_SIGNATURES asks for" in str(found["signed"])
    assert reason in found["signed"]


def test_whole_files(
    run_python: Callable[..., str],
    signed: Path,
    key: KeyPair,
    stranger: KeyPair,
    tmp_path: Path,
) -> None:
    cases: Cases = {"signed": (str(signed / "outside.pte"), [str(signed / DATA)])}
    for name in ("no signature", "changed", "other file"):
        folder = tmp_path / name
        shutil.copytree(signed, folder)
        cases[name] = (str(folder / "outside.pte"), [str(folder / DATA)])
    (tmp_path / "no signature" / "outside.pte.sig").unlink()
    with (tmp_path / "changed" / "outside.pte").open("ab") as file:
        file.write(b"\0")
    shutil.copy(signed / "inside.pte.sig", tmp_path / "other file" / f"{DATA}.sig")
    found = results_of(run_python, cases, [key.public], whole_files=True)
    assert found["signed"] == pytest.approx(EXPECTED, rel=1e-4, abs=1e-3)
    assert "outside.pte' has no signature: there is no" in found["no signature"]
    assert "outside.pte' is not the file that was signed" in found["changed"]
    assert f"{DATA}' is not the file that was signed" in found["other file"]
    found = results_of(run_python, cases, [stranger.public], whole_files=True)
    assert "none is one of the 1 that are trusted" in found["signed"]


def test_bytes_are_no_file(run_python: Callable[..., str], signed: Path, key: KeyPair) -> None:
    script = """
        import sys
        from aoti_plugins.errors import SignatureError
        from aoti_plugins.runtime import Program, require_signatures
        require_signatures([sys.argv[1]], whole_files=True)
        try:
            Program(open(sys.argv[2], "rb").read())
        except SignatureError as error:
            print(error)
    """
    printed = run_python(script, key.public, signed / "inside.pte")
    assert "bytes have no signature beside them" in printed


def test_the_stock_runtime_demands_them_too(
    run_python: Callable[..., str], signed: Path, unsigned: Path, key: KeyPair
) -> None:
    script = """
        import sys
        from aoti_plugins.runtime import register, require_signatures
        register()
        require_signatures([sys.argv[1]])
        import torch
        from executorch.runtime import Runtime
        for path in sys.argv[2:]:
            try:
                method = Runtime.get().load_program(path).load_method("forward")
                print("ran", method.execute([torch.ones(2, 64)])[0].sum().item())
            except RuntimeError as error:
                print("refused")
    """
    printed = run_python(script, key.public, signed / "inside.pte", unsigned / "inside.pte")
    assert "ran " in printed
    assert printed.rstrip().count("refused") == 1


def test_what_was_loaded_unsigned_is_not_used_for_signed_programs(
    run_python: Callable[..., str], signed: Path, unsigned: Path, key: KeyPair
) -> None:
    """The same code and weights are mapped and in memory already; a demand looks at them anew."""
    script = """
        import sys
        import numpy
        from aoti_plugins.errors import ProgramError
        from aoti_plugins.runtime import Program, require_signatures
        x = numpy.ones((2, 64), "float32")
        before = Program(sys.argv[2])
        before(x)
        maps = lambda: open("/proc/self/maps").read().count("aoti_plugins_blob")
        mapped = maps()
        require_signatures([sys.argv[1]])
        before(x)  # what runs, runs on
        after = Program(sys.argv[3])
        after(x)
        assert maps() == 2 * mapped, (mapped, maps())
        try:
            before.method()
        except ProgramError as error:
            print(error)
    """
    inside = "inside.pte"
    printed = run_python(script, key.public, unsigned / inside, signed / inside)
    assert "the program has no signature" in printed


def _run_cpp(runner: Path, program: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(runner), str(program)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_cpp_program(cpp_runner: Path, signed: Path, unsigned: Path, key: KeyPair) -> None:
    demand = {VARIABLE: str(key.public)}
    done = _run_cpp(cpp_runner, signed / "inside.pte", **demand)
    assert done.returncode == 0, done.stderr
    done = _run_cpp(cpp_runner, unsigned / "inside.pte", **demand)
    assert done.returncode == 1
    assert "the program has no signature" in done.stdout + done.stderr
    assert _run_cpp(cpp_runner, unsigned / "inside.pte").returncode == 0


SODIUMS = ("libsodium.so.23", "libsodium.so.26")


@pytest.mark.skipif(sys.platform != "linux", reason="LD_LIBRARY_PATH hides libraries on Linux only")
@pytest.mark.parametrize("hidden", [(), SODIUMS], ids=["libsodium", "neither"])
def test_without_openssl(
    cpp_runner: Path, signed: Path, key: KeyPair, tmp_path: Path, hidden: tuple[str, ...]
) -> None:
    """What is no library stands in front of the system's: libsodium answers, or nobody does."""
    if not hidden and not any(map(_loads, SODIUMS)):
        pytest.skip("libsodium is not installed: apt install libsodium23")
    for name in ("libcrypto.so.3", *hidden):
        (tmp_path / name).write_text("this is no library")
    environment = {VARIABLE: str(key.public), "LD_LIBRARY_PATH": str(tmp_path)}
    done = _run_cpp(cpp_runner, signed / "inside.pte", **environment)
    assert done.returncode == (1 if hidden else 0), done.stderr
    if hidden:
        printed = done.stdout + done.stderr
        assert "neither OpenSSL 3 (libcrypto) nor libsodium is here. Install one" in printed
        return
    tampered = tmp_path / "tampered.pte"
    data = bytearray((signed / "inside.pte").read_bytes())
    at, payload, raw = _payload_of(signed / "inside.pte")
    _put(at + len(raw) - BLOCK_NBYTES, _resealed(payload, flip_at=32))(data)
    tampered.write_bytes(data)
    done = _run_cpp(cpp_runner, tampered, **environment)
    assert done.returncode == 1
    assert "a signature of the program is wrong" in done.stdout + done.stderr


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


@pytest.mark.parametrize(
    ("count", "code", "reason"),
    [
        (1, 1, "no program is run: aotip_require_signatures was called with keys that are null"),
        (0, 0, "none is one of the 0 that this process trusts"),
    ],
)
def test_a_demand_without_keys_lets_nothing_run(
    run_python: Callable[..., str], signed: Path, count: int, code: int, reason: str
) -> None:
    script = """
        import ctypes, sys
        from aoti_plugins.errors import ProgramError
        from aoti_plugins.runtime import Program, library_path
        program = Program(sys.argv[1])
        core = ctypes.CDLL(str(library_path("cpu")))
        assert core.aotip_signatures_required() == 0
        function = core.aotip_require_signatures
        function.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
        print("code", function(None, int(sys.argv[2])))
        assert core.aotip_signatures_required() == 1
        try:
            program.method()
        except ProgramError as error:
            print(error)
    """
    printed = run_python(script, signed / "inside.pte", count)
    assert f"code {code}" in printed
    assert reason in printed
