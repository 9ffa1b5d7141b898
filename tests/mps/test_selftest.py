"""The self-test: made for Metal's stand-in, run over it, and what can be wrong with it."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
from click.testing import CliRunner
from filelock import FileLock

from aoti_plugins.cli.app import app
from aoti_plugins.errors import DestinationError, LoweringError, ProgramError
from aoti_plugins.selftest.bundle import Call, Case, read_bundle, write_bundle
from aoti_plugins.selftest.models import models
from aoti_plugins.selftest.report import report_of
from aoti_plugins.selftest.run import Result, run_bundle, run_case

QUICK = ("pointwise", "mlp_dynamic", "cache")


@pytest.fixture(scope="module")
def bundle(shared_dir: Path) -> Path:
    """Three of the cases, for this machine."""
    from aoti_plugins import MpsPartitioner
    from aoti_plugins.selftest.make import make_bundle

    path = shared_dir / "selftest.zip"
    with FileLock(f"{path}.lock"):
        if not path.exists():
            make_bundle(path, "mps", lambda: MpsPartitioner(target="host"), QUICK)
    return path


def test_every_case_passes(bundle: Path, metal: None) -> None:
    results = list(run_bundle(bundle))
    assert [one.name for one in results] == list(QUICK)
    assert [one.error for one in results] == [""] * len(QUICK)
    assert all(0 <= one.worst <= 1 for one in results)
    assert all(min(one.load_s, one.first_s, one.call_s) > 0 for one in results)


@pytest.mark.long
def test_all_models_pass(tmp_path: Path, metal: None) -> None:
    from aoti_plugins import MpsPartitioner
    from aoti_plugins.selftest.make import make_bundle

    make_bundle(tmp_path / "all.zip", "mps", lambda: MpsPartitioner(target="host"))
    results = list(run_bundle(tmp_path / "all.zip"))
    assert {one.name: one.error for one in results if one.error} == {}
    assert len(results) == len(models())


def _changed(bundle: Path, path: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    with zipfile.ZipFile(bundle) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def test_a_wrong_output_is_noticed(bundle: Path, metal: None, tmp_path: Path) -> None:
    read = read_bundle(bundle)
    case = read.cases[0]
    (call,) = read.calls(case)
    wrong = Call(call.inputs, [call.outputs[0] + 1, *call.outputs[1:]])
    path = tmp_path / "wrong.zip"
    write_bundle(path, "mps", read.built_with, [(case, read.program(case), [wrong])])
    result = run_case(path, case.name)
    assert result.error.startswith("outputs differ by")
    assert result.worst > 1


def test_a_damaged_program_fails_alone(bundle: Path, metal: None, tmp_path: Path) -> None:
    def damage(files: dict[str, bytes]) -> None:
        files["pointwise.pte"] = files["pointwise.pte"][:1000]

    results = list(run_bundle(_changed(bundle, tmp_path / "damaged.zip", damage)))
    assert [bool(one.error) for one in results] == [True, False, False]


def test_without_metal_every_case_says_so(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AOTI_PLUGINS_METAL", raising=False)
    results = list(run_bundle(bundle))
    assert all("Metal" in one.error for one in results), results


def test_the_command_prints_a_report(bundle: Path, metal: None, tmp_path: Path) -> None:
    output = tmp_path / "report.md"
    done = CliRunner().invoke(app, ["selftest", "run", str(bundle), "-o", str(output)])
    assert done.exit_code == 0, done.output
    report = output.read_text()
    assert report in done.output
    assert report.startswith("### aoti-plugins self-test: mps, 3 of 3 passed")
    assert "| pointwise | ok |" in report
    found = CliRunner().invoke(app, ["selftest", "run", str(bundle), "--json"])
    assert [one["name"] for one in json.loads(found.stdout)["results"]] == list(QUICK)


def test_one_program_can_be_run_alone(bundle: Path, metal: None) -> None:
    assert [one.name for one in run_bundle(bundle, ["mlp_dynamic"])] == ["mlp_dynamic"]


def test_unknown_programs_are_named(bundle: Path) -> None:
    reason = "no program called resnet, vgg; there are: pointwise, mlp_dynamic, cache"
    with pytest.raises(ProgramError, match=reason):
        list(run_bundle(bundle, ["vgg", "cache", "resnet"]))
    with pytest.raises(ProgramError, match="no program called resnet"):
        run_case(bundle, "resnet")
    done = CliRunner().invoke(app, ["selftest", "run", str(bundle), "--model", "resnet"])
    assert done.exit_code == 1
    assert "the self-test has no program called resnet; there are: pointwise" in done.output


def test_errors_are_in_the_report(bundle: Path) -> None:
    report = report_of(read_bundle(bundle), [Result("one", error="why\nnot"), Result("two")])
    assert "self-test: mps, 1 of 2 passed" in report
    assert "| one | FAILED |" in report
    assert "one:\n```\nwhy\nnot\n```" in report


def test_a_crash_is_a_result(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AOTI_PLUGINS_LIBRARY_DIR", "")
    monkeypatch.setattr("sys.executable", "/bin/false")
    results = list(run_bundle(bundle))
    assert all(one.error.startswith("its process ended with status 1") for one in results)


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 not a zip"])
def test_no_bundle(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "some.zip"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProgramError, match=r"is no self-test: .*Make one with"):
        read_bundle(path)


def test_a_bundle_of_a_later_version(bundle: Path, tmp_path: Path) -> None:
    def later(files: dict[str, bytes]) -> None:
        files["manifest.json"] = files["manifest.json"].replace(b'"version": 1', b'"version": 9')

    path = _changed(bundle, tmp_path / "later.zip", later)
    with pytest.raises(ProgramError, match="of version 9; this aoti-plugins reads version 1"):
        read_bundle(path)


def test_a_missing_file(bundle: Path, tmp_path: Path) -> None:
    path = _changed(bundle, tmp_path / "less.zip", lambda files: files.pop("cache.pte") and None)
    read = read_bundle(path)
    with pytest.raises(ProgramError, match="is no self-test"):
        read.program(read.cases[-1])


def test_unknown_models_are_refused(tmp_path: Path) -> None:
    from aoti_plugins.selftest.make import make_bundle

    with pytest.raises(LoweringError, match="called resnet; there are: pointwise, "):
        make_bundle(tmp_path / "x.zip", "mps", lambda: None, ["resnet"])
    assert not (tmp_path / "x.zip").exists()


def test_writing_fails_whole(tmp_path: Path) -> None:
    case = Case("a", "", 0, 0)
    call = Call([numpy.zeros(1)], [numpy.zeros(1)])
    with pytest.raises(DestinationError, match="there is no folder"):
        write_bundle(tmp_path / "no" / "x.zip", "mps", {}, [(case, b"", [call])])
