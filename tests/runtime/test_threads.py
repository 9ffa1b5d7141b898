"""Threads: methods of their own run at once, a shared method takes turns, close waits its turn."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Program

Lowered = Callable[[str], Path]
CALLS = 200


def check(run: Callable[..., tuple[torch.Tensor, ...]], x: torch.Tensor, y: torch.Tensor) -> None:
    for _ in range(CALLS):
        torch.testing.assert_close(run(x)[0], y, rtol=0, atol=0)


def test_a_method_per_thread(lowered_programs: Lowered) -> None:
    with Program(lowered_programs("mlp")) as program, ThreadPoolExecutor(4) as pool:
        inputs = [torch.randn(4, 64) for _ in range(4)]
        expected = [program(x)[0] for x in inputs]
        methods = list(pool.map(lambda _: program.method(), range(4)))
        list(pool.map(check, methods, inputs, expected))


def test_one_method_for_all_threads(lowered_programs: Lowered) -> None:
    with Program(lowered_programs("mlp")) as program, ThreadPoolExecutor(4) as pool:
        inputs = [torch.randn(4, 64) for _ in range(4)]
        expected = [program(x)[0] for x in inputs]
        list(pool.map(check, [program] * 4, inputs, expected))


def test_programs_come_and_go(lowered_programs: Lowered) -> None:
    path = lowered_programs("mlp")
    x = torch.ones(4, 64)
    with Program(path) as program:
        expected = program(x)[0]

    def cycle(_: int) -> None:
        with Program(path) as program:
            torch.testing.assert_close(program(x)[0], expected, rtol=0, atol=0)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(cycle, range(40)))


def test_close_while_others_run(lowered_programs: Lowered) -> None:
    program = Program(lowered_programs("mlp"))
    x = torch.ones(4, 64)

    def run_until_closed() -> str:
        while True:
            try:
                program(x)
            except ProgramError as error:
                return str(error)

    with ThreadPoolExecutor(3) as pool:
        runners = [pool.submit(run_until_closed) for _ in range(3)]
        for _ in range(CALLS):
            try:
                program(x)
            except ProgramError:
                break
        program.close()
        assert all("is closed" in runner.result(timeout=60) for runner in runners)
