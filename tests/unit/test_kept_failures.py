"""Failures in generated parallel loops: kept, thrown behind the region, and no error unnoticed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from aoti_plugins import native_files
from aoti_plugins.errors import LoweringError
from aoti_plugins.lowering.inductor.checked_calls import with_checked_calls
from aoti_plugins.lowering.inductor.kept_failures import with_kept_failures

# The constructs that Inductor writes, as it writes them: a loop, two loops as one, and a `single`.
KERNEL = """\
#include <stdexcept>
#include <string>
extern "C" void kernel(long bad, long* done)
{
    #pragma omp parallel num_threads(3)
    {
        int tid = 0;
        {
            #pragma omp for
            for(long x0=0; x0<1000; x0+=1)
            {
                if (x0 == bad) throw std::runtime_error("loop " + std::to_string(x0));
                done[0] = 1;
            }
        }
    }
    #pragma omp parallel
    {
        #pragma omp for collapse(2)
        for(long x0=0; x0<10; x0+=1)
        {
            for(long x1=0; x1<100; x1+=1)
            {
                #pragma GCC ivdep
                for(long x2=0; x2<1; x2+=1)
                {
                    if (100 * x0 + x1 == bad - 1000) throw std::runtime_error("loops");
                }
            }
        }
        #pragma omp single
        {
            if (bad == 2000) throw std::runtime_error("single");
            done[1] = 1;
        }
    }
}
"""
MAIN = """\
#include <cstdio>
#include <cstdlib>
int main(int, char** argv)
{
    long done[2] = {};
    try { kernel(std::atol(argv[1]), done); std::puts("returned"); }
    catch (const std::exception& error) { std::puts(error.what()); }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernel with a main function, compiled with an OpenMP runtime of the compiler's."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++")
    folder = tmp_path_factory.mktemp("kept_failures")
    source, made = folder / "kernel.cpp", folder / "kernel"
    source.write_text(with_kept_failures(KERNEL) + MAIN)
    header = native_files.include_dir() / "aoti_plugins" / "blob_failures.h"
    command = [compiler, "-fopenmp", "-O1", "-include", str(header), str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    return made


PLACES = {
    -1: "returned",
    0: "loop 0",
    999: "loop 999",
    1000: "loops",
    1999: "loops",
    2000: "single",
}


@pytest.mark.parametrize(("bad", "expected"), PLACES.items())
def test_a_failure_in_a_parallel_loop_is_thrown_behind_it(
    program: Path, bad: int, expected: str
) -> None:
    """Without the rewriting each of these ends the process with SIGABRT."""
    for threads in ("1", "4"):
        done = subprocess.run(
            [program, str(bad)],
            env={"OMP_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == expected + "\n"


def test_kernels_without_parallel_loops_stay_as_they_are() -> None:
    text = "void kernel()\n{\n    for(long i=0; i<3; i+=1)\n    {\n    }\n}\n"
    assert with_kept_failures(text) == text
    assert with_kept_failures("") == ""


UNKNOWN = (
    "#pragma omp parallel\nfoo();\n",
    "#pragma omp for\nwhile (true)\n{\n}\n",
    "#pragma omp single\n{\n",
    "#pragma omp for collapse(2)\nfor(;;)\n{\n    foo();\n}\n",
)


@pytest.mark.parametrize("text", UNKNOWN)
def test_an_unknown_construct_is_an_error(text: str) -> None:
    with pytest.raises(LoweringError, match="belongs to the parallel construct"):
        with_kept_failures(text)


def test_errors_of_calls_that_stand_alone_are_noticed() -> None:
    """``scatter_reduce`` and others were called without a look at what they return."""
    wrapper = """\
    aoti_torch_cpu_scatter_reduce_two_out(buf2, buf2, 0, f(arg0_1), buf1, "amax",1);
    AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(a, b, c));
    aoti_torch_check(false, "f", "g", 1, "h");
    auto x = aoti_torch_dtype_float32();
    aoti_torch_mps_start_encoding(handle);
"""
    expected = wrapper.replace(
        'aoti_torch_cpu_scatter_reduce_two_out(buf2, buf2, 0, f(arg0_1), buf1, "amax",1);',
        "AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_scatter_reduce_two_out("
        'buf2, buf2, 0, f(arg0_1), buf1, "amax",1));',
    )
    assert with_checked_calls(wrapper) == expected
