"""Options of delegates, for one method and for the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from aoti_plugins.errors import ProgramError
from aoti_plugins.runtime import Method, Program, backends, get_options, set_options

CPU, CUDA = "AotiCpuBackend", "AotiCudaBackend"


def test_of_the_cpu(lowered_programs: Callable[[str], Path]) -> None:
    assert list(get_options(CPU)) == ["seed"]
    with pytest.raises(ProgramError, match="there is no option 'threads', the options are: seed"):
        set_options(CPU, threads=2)
    with Program(lowered_programs("mlp")) as program:
        with pytest.raises(ProgramError, match="the options are: shared_state"):
            program.method(options={CPU: {"threads": 2}})
        program.method(options={CPU: {}}).close()


def test_of_cuda_without_a_gpu(lowered_programs: Callable[[str], Path]) -> None:
    if CUDA not in backends():
        pytest.skip("the CUDA delegate was not built: CUDA's headers are missing")
    before = get_options(CUDA)
    fixed = {
        "memory_limit_mib": 0,
        "allow_tf32": False,
        "cuda_graphs": 1,
        "own_streams": False,
    }
    assert before == {**fixed, "seed": get_options(CPU)["seed"]}
    set_options(CUDA, memory_limit_mib=64, allow_tf32=True)
    try:
        assert get_options(CUDA) == {**before, "memory_limit_mib": 64, "allow_tf32": True}
        with pytest.raises(ProgramError, match="option 'cuda_graphs' has a wrong value"):
            set_options(CUDA, memory_limit_mib=1, cuda_graphs=True)
        assert get_options(CUDA)["memory_limit_mib"] == 64
    finally:
        set_options(CUDA, **before)
    with Program(lowered_programs("mlp")) as program:  # another delegate's options
        program.method(options={CUDA: {"cuda_graphs": True}}).close()


def test_wrong_ones(lowered_programs: Callable[[str], Path]) -> None:
    with pytest.raises(ProgramError, match=r"there is no delegate 'Nobody', there are: .*Aoti"):
        get_options("Nobody")
    with pytest.raises(ProgramError, match="there is no delegate 'Nobody'"):
        set_options("Nobody", x=1)
    for value in ("1", 2**40, None):
        with pytest.raises(ProgramError, match="expected a bool or an int of 32 bits"):
            set_options(CPU, threads=value)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="the name of option 0 is too long"):
        set_options(CPU, **{"x" * 100: 1})
    with Program(lowered_programs("mlp")) as program:
        with pytest.raises(ProgramError, match="there is no delegate 'Nobody'"):
            program.method(options={"Nobody": {"x": 1}})
        program.method().close()


def test_threads_share_the_default_method(
    lowered_programs: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[Method] = []
    method = Program.method
    barrier = threading.Barrier(4)

    def counted(self: Program, name: str = "forward") -> Method:
        loaded.append(method(self, name))
        return loaded[-1]

    monkeypatch.setattr(Program, "method", counted)
    with Program(lowered_programs("mlp")) as program:

        def first_call() -> None:
            barrier.wait()
            program._load_default()

        threads = [threading.Thread(target=first_call) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(loaded) == 1
