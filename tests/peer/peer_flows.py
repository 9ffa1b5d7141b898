"""Pytest plugin: ExecuTorch's own backend test suite, lowered by our partitioners.

The suite has its flows written down in one function; this plugin is loaded first (``-p
peer_flows``) and puts ours there. Every result goes to the file that ``--peer-report`` names.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aarch64_support import machine_of_environment
from executorch.backends.test.harness import Tester
from executorch.backends.test.harness.stages import (
    Serialize,
    StageType,
    ToEdgeTransformAndLower,
    ToExecutorch,
)
from executorch.backends.test.suite import flow as suite_flow
from executorch.exir import EdgeCompileConfig
from mps_support import HostTarget
from torch.utils import _pytree as pytree

from aoti_plugins import CpuPartitioner, CudaPartitioner, MpsPartitioner
from aoti_plugins.plugin_system.manager import get_manager
from aoti_plugins.runtime import Program

_LONGEST_ERROR = 400


class RunOnOurRuntime(Serialize):
    """Runs the program with our own runtime, which works beside every version of torch."""

    def run_artifact(self, inputs: Any) -> tuple[Any, ...]:
        """What ``forward`` gives for the inputs."""
        with Program(self.buffer) as program:
            return program(*pytree.tree_leaves(inputs))


class RunOnAarch64(Serialize):
    """Runs the program with our own runtime on an aarch64 machine under qemu, without torch."""

    def run_artifact(self, inputs: Any) -> tuple[Any, ...]:
        """What ``forward`` gives for the inputs."""
        return machine_of_environment().call(self.buffer, pytree.tree_leaves(inputs))


class OurTester(Tester):
    """The suite's tester with one of our partitioners."""

    def __init__(
        self,
        partitioner: Any,
        module: Any,
        inputs: Any,
        run: type[Serialize] = RunOnOurRuntime,
        **options: Any,
    ) -> None:
        stages = {
            **Tester.default_stage_classes(),
            StageType.TO_EDGE_TRANSFORM_AND_LOWER: partial(
                ToEdgeTransformAndLower,
                default_partitioner_cls=partitioner,
                edge_compile_config=EdgeCompileConfig(_check_ir_validity=False),
            ),
            StageType.TO_EXECUTORCH: ToExecutorch,
            StageType.SERIALIZE: run,
        }
        super().__init__(module, inputs, stages, **options)


class LoweringTester(OurTester):
    """Lowers for a GPU that is not here; the program is not run."""

    def run_method_and_compare_outputs(self, *args: Any, **kwargs: Any) -> LoweringTester:
        """Nothing: what counts is what is in the delegate."""
        del args, kwargs
        return self


def _flows() -> dict[str, suite_flow.TestFlow]:
    arm = partial(CpuPartitioner, target="aarch64-v8")
    flows = {
        "aoti_cpu": partial(OurTester, CpuPartitioner),
        "aoti_cpu_aarch64_emulated": partial(OurTester, arm, run=RunOnAarch64),
        "aoti_cuda": partial(OurTester, CudaPartitioner),
        "aoti_cuda_h100_lowered": partial(LoweringTester, partial(CudaPartitioner, target="h100")),
        "aoti_mps_lowered": partial(LoweringTester, MpsPartitioner),
        "aoti_mps_emulated": partial(OurTester, partial(MpsPartitioner, target="host")),
    }
    return {name: suite_flow.TestFlow(name, "aoti", factory) for name, factory in flows.items()}


suite_flow.all_flows = _flows
get_manager().register(HostTarget(), "host-target")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the report and of a sample."""
    group = parser.getgroup("peer")
    group.addoption("--peer-report", default="", help="JSON file that gets every result")
    group.addoption("--peer-every", type=int, default=1, help="run only each n-th test")
    group.addoption("--peer-names", default="", help="run only tests that this file names")
    group.addoption("--peer-first", type=int, default=0, help="of these, from this one on")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Take a sample of the flow's tests: those of a file, or some that are spread over all."""
    if names := config.getoption("--peer-names"):
        _keep(config, items, _named(Path(names), items))
    yield
    every, first = config.getoption("--peer-every"), config.getoption("--peer-first")
    _keep(config, items, items[first::every])


def _keep(config: pytest.Config, items: list[pytest.Item], kept: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def _named(path: Path, items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests that the lines of a file name as ``test_file.py::test_function``."""
    lines = path.read_text().splitlines()
    wanted = {line for line in lines if line and not line.startswith("#")}
    if missing := sorted(wanted.difference(_name(item.nodeid) for item in items)):
        raise pytest.UsageError(f"{path}: the suite has no test {', '.join(missing)}")
    return [item for item in items if _name(item.nodeid) in wanted]


def _name(node: str) -> str:
    return node.rpartition("/")[2].partition("[")[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Attach what the suite's runner found to the test's report, which xdist passes on."""
    runner = getattr(item, "funcargs", {}).get("test_runner")
    summaries = getattr(runner, "_results", [])
    item.user_properties[:] = [("peer", json.dumps([_as_json(one) for one in summaries]))]
    return (yield)


def _as_json(summary: Any) -> dict[str, Any]:
    error = "" if summary.error is None else str(summary.error.__cause__ or summary.error)
    outside = summary.undelegated_op_counts or {}
    return {
        "result": summary.result.name,
        "outside": sorted(f"{op} x{count}" for op, count in outside.items()),
        "error": error[:_LONGEST_ERROR],
        "lower_s": round(summary.lower_time.total_seconds(), 3) if summary.lower_time else None,
    }


def _reason(report: pytest.TestReport) -> str:
    if report.skipped and isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")  # after path and line
    return "" if report.passed else str(report.longrepr)


class _Report:
    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the last word on a test: the call's, or the setup's where it failed."""
        if report.when != "call" and report.outcome == "passed":
            return
        properties = dict(report.user_properties)
        found = json.loads(str(properties.get("peer", "[]")))
        self._tests[report.nodeid.rpartition("/")[2]] = {
            "outcome": report.outcome,
            "runs": found,
            "reason": _reason(report)[-_LONGEST_ERROR:],
            "seconds": round(report.duration, 3),
        }

    def pytest_sessionfinish(self) -> None:
        """Write everything down."""
        self._path.write_text(json.dumps(self._tests, indent=1, sort_keys=True) + "\n")


def pytest_configure(config: pytest.Config) -> None:
    """Report from the process that knows all results."""
    path = config.getoption("--peer-report")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Report(path))
