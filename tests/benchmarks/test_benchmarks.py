"""The benchmarks run; the figures of such a short run mean nothing."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support import cache_without_blobs

ROOT = Path(__file__).parent.parent.parent


def test_cpu_overhead(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "cpu_overhead.py")]
    command += ["--calls=3", "--rounds=2", "--processes=1", f"--output={output}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    assert result["per_call"]["ours"]["median_us"] > 0
    assert set(result["environment"]) == {"date", "hardware", "system", "versions"}


def test_cpu_models(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "cpu_models.py"), "mlp"]
    command += ["--seconds=0.05", "--rounds=1", f"--output={output}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())["models"]["mlp"]
    assert found["us"].keys() == {"ours", "xnnpack"}
    assert found["their_time_over_ours"]["xnnpack"] > 0
    assert all(error < 1e-5 for error in found["relative_error"].values())


def test_tensor_parallel(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "tensor_parallel.py")]
    command += ["--device=cpu", "--model=tiny", f"--output={output}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    assert result["ranks"].keys() == {"1", "2"}
    assert result["relative_error"] < 1e-5
    times = result["all_reduce"]["us_of_a_sum"]
    assert times.keys() == {"8192", "8388608"}
    assert min(times.values()) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_lowering_memory(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "lowering_memory.py"), "--size=tiny"]
    command += ["--device=cpu", f"--folder={tmp_path}", f"--output={output}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(output.read_text())
    assert 0 < result["weights_nbytes"] < result["program_nbytes"] < result["own_nbytes"]
    assert result["seconds"] > 0


def test_lowering_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("lowering_time")
    cache_without_blobs(tmp_path / "aoti_plugins")
    found = benchmark.lower(tmp_path, "h100")
    assert found["import"] > 0
    assert len(found["lowerings"]) == 2
    case = benchmark.summary([found])
    assert case["first"]["stages"].keys() >= {"generate", "compile", "partition and the rest"}
    assert case["first"]["seconds"] > case["second_in_process"]["seconds"]


def test_kernel_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("kernel_marks")
    found = benchmark.measure(calls=2, rounds=2, target=None)
    assert found["kernels"] == 2 * benchmark.LAYERS
    assert found["call_us"].keys() == {"marked", "plain", "watched"}
    assert b"tanh_0:" in benchmark.build(True, None)
    assert b"tanh_0:" not in benchmark.build(False, None)


def test_chosen_architectures(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of each package, evenly, without those that are measured apart."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("lowering_architectures")
    names = [f"{package}.net{index}" for package in benchmark.PACKAGES for index in range(75)]
    found = benchmark.chosen([*names, *benchmark.SLOW, "torchvision.net"])
    assert len(found) == len(set(found)) == len(benchmark.PACKAGES) * benchmark.OF_EACH
    assert found[0] == names[0]
    assert set(found) <= set(names)
    done = {"cold": {"seconds": 3.0}, "warm": {"seconds": 1.0}}
    slow = {"cold": {"seconds": 99.0}, "warm": {"seconds": 99.0}}
    models = {"timm.a": done, "timm.b": {"failed": "exit status 1"}, benchmark.SLOW[0]: slow}
    assert benchmark.summary(models) == {
        "models": 1,
        "cold median s": 3.0,
        "warm median s": 1.0,
        "failed": ["timm.b"],
    }


def test_lowerings_of_two_versions_are_medians(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("lowering_versions")

    def one(seconds: float, **stages: float) -> dict[str, Any]:
        return {
            "seconds": seconds,
            "process cpu s": seconds - 1,
            "compilers cpu s": 2.0,
            "stages": stages,
        }

    found = benchmark.summary([one(9, generate=4), one(5, generate=3, compile=1), one(6)])
    assert found == {
        "seconds": 6,
        "process cpu s": 5,
        "compilers cpu s": 2.0,
        "stages": {"compile": 0, "generate": 3},
    }


def test_ratios_of_lowering_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    benchmark = importlib.import_module("lowering_time")

    def case(first: float, again: float) -> dict[str, dict[str, float]]:
        return {"first": {"seconds": first}, "second_in_process": {"seconds": again}}

    cases = {"cold": case(12, 3), "cold kernels": case(8, 2), "warm": case(4, 1)}
    assert benchmark.ratios(cases) == {
        "cold / second in the same process": 4,
        "cold / warm in a new process": 3,
        "cold kernels / second in the same process": 4,
        "cold kernels / warm in a new process": 2,
    }


def test_stored_results_say_where_they_come_from() -> None:
    found = list((ROOT / "benchmarks" / "results").glob("*.json"))
    assert found
    for path in found:
        stored = json.loads(path.read_text())
        runs = [stored] if "environment" in stored else stored["runs"]
        assert runs, path
        for run in runs:
            described = run["environment"]
            assert described["date"]
            assert described["hardware"]["cpu"]
            assert described["versions"]["torch"]


def test_stored_overhead_keeps_its_promise() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "cpu_overhead.json").read_text())
    assert result["per_call_ratio"] <= 0.5


def test_stored_lowering_time_keeps_its_promise() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "lowering_time.json").read_text())
    assert result["cases"]["cold kernels"]["first"]["seconds"] < 8
    assert result["ratios"]["cold / warm in a new process"] >= 5


def test_stored_speed_of_cuda_programs_keeps_its_promise() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "cuda_programs.json").read_text())
    assert set(result["models"]) == {"mlp", "cnn", "transformer_1", "transformer_128"}
    assert result["speed"]["records"] >= 0.97
    assert result["speed"]["estimated"] >= 0.85
    assert result["speed"]["measured"] >= 1


def test_stored_lowering_cost_keeps_its_promise() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "lowering_cost.json").read_text())
    assert len(result["models"]) == 6
    for model in result["models"].values():
        assert model["time_ratio"] <= 1.3
        assert model["memory_over_allowed"] <= 1


def test_stored_cuda_processes_keep_their_promises() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "cuda_process.json").read_text())
    calls, load, full = result["calls"], result["load"], result["full"]
    assert calls["mlp"]["without graphs"]["latency_us"] <= 25
    assert calls["mlp"]["with graphs"]["in_a_row_us"] <= 12
    assert calls["transformer_1"]["with graphs"]["latency_us"] <= 110
    assert calls["transformer_128"]["with graphs"]["latency_us"] <= 200
    assert load["program_nbytes"] >= 1_000_000_000
    assert load["first_result_ms"] <= 1.5 * load["copy_ms"] + 150
    assert load["most_resident_nbytes"] - load["context_nbytes"] <= 150_000_000
    assert result["cycles"]["cycles"] == 500
    assert result["cycles"]["device_grown_nbytes"] == result["cycles"]["files_grown"] == 0
    assert "out of memory" in full["error"]
    assert full["small_after"] == full["with_memory_again"] == ""


@pytest.mark.parametrize(
    ("name", "more"),
    [("cuda_models.json", set()), ("cuda_models_h200.json", {"whisper_small_decoder_step"})],
)
def test_stored_speed_of_cuda_models_keeps_its_promise(name: str, more: set[str]) -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / name).read_text())
    four = {"resnet50", "vit_b_16", "bert_base", "whisper_small_encoder"}
    assert set(result["models"]) == four | more
    for model in result["models"].values():
        for time in ("latency_us", "throughput_us"):
            others = [model[way][time] for way in ("eager", "torch.compile", "aotinductor")]
            assert model["graphs"][time] <= min(others)


def test_stored_speed_of_cpu_models_keeps_its_promise() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "cpu_models.json").read_text())
    ratios = [model["their_time_over_ours"] for model in result["models"].values()]
    assert len(ratios) >= 20
    assert min(ratio["xnnpack"] for ratio in ratios) >= 0.9
    assert result["geometric_means"]["xnnpack"] >= 1.15
    assert result["geometric_means"]["torch.compile"] >= 1


def test_stored_products_and_ops_keep_their_promises() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "cuda_matmul.json").read_text())
    speeds = [one["speed"] for shapes in result["products"].values() for one in shapes.values()]
    assert len(speeds) == 120
    assert min(speeds) >= 0.97
    result = json.loads((ROOT / "benchmarks" / "results" / "cuda_kernels.json").read_text())
    assert not result["failed"]
    assert all(op["ours_us"] <= 1.3 * op["torch_us"] for op in result["ops"].values())


def test_stored_contract_is_clean() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "cuda_contract.json").read_text())
    assert len(result["runs"]) == 17
    assert any("graphs" in name for name in result["programs called"])
    for runs in (*result["runs"].values(), *result["programs called"].values()):
        assert set(runs) == {"alone", "memcheck", "racecheck", "synccheck"}
        assert all(run["exit"] == 0 for run in runs.values())
    for runs in result["two GPUs"]["runs"].values():
        assert set(runs) == {"alone", "memcheck"}
        assert all(run["exit"] == 0 for run in runs.values())
