"""Text on an NVIDIA GPU, from a checkpoint of a real size: tokens a second, and what they cost.

A Llama of 1.24 billion weights, random, becomes a program by the command line. Measured are a bare
step (the method for one token, calls in a row, nothing chosen), ``TextGenerator``'s tokens with
sampling, the command line's, four sessions in turns, and the memory that many answers leave.

    python benchmarks/cuda_generation.py int4 int8 --output benchmarks/results/cuda_generation.json
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import environment
import speculation

from aoti_plugins.generation import Sampling, TextGenerator
from aoti_plugins.runtime import Program

WIDTH, LAYERS, VOCABULARY = 2048, 16, 128_256
PROMPT = list(range(100, 164))
SAMPLING = Sampling(temperature=0.8, top_k=40, top_p=0.95, seed=1)
SESSIONS = 4
RESULTS = Path(__file__).parent / "results" / "cuda_generation.json"


def bare_step_us(path: Path, calls: int) -> float:
    """Microseconds of the method for one token, calls in a row; scores stay on the GPU.

    The best of three rounds, all in the middle of the text and from the same memory.
    """
    import torch

    program = Program(path)
    method = program.method("decode")
    token, place = torch.tensor([[7]], device="cuda"), torch.tensor([400], device="cuda")
    found = []
    for _ in range(4):  # the first one makes graphs
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            method(token, place, copy=False)
        torch.cuda.synchronize()
        found.append((time.perf_counter() - start) * 1e6 / calls)
    program.close()
    return min(found[1:])


def token_us(generator: TextGenerator, sampling: Sampling, count: int) -> float:
    """Microseconds of a token of an answer, behind the first one; the best of three answers."""
    found = []
    for _ in range(3):
        for _ in generator.tokens(PROMPT, sampling, count):
            pass
        found.append(1e6 / generator.statistics.tokens_per_s)
    return min(found)


def sessions_us(generator: TextGenerator, count: int) -> float:
    """Microseconds of a token, behind the first ones, where some sessions take turns."""
    sessions = [generator.session() for _ in range(SESSIONS)]
    for rounds in (8, count):  # the first ones make graphs
        answers = [one.tokens(PROMPT[i:], SAMPLING, rounds) for i, one in enumerate(sessions)]
        for answer in answers:
            next(answer)
        start = time.perf_counter()
        tokens = sum(len(turn) for turn in zip(*answers, strict=True))
        seconds = time.perf_counter() - start
    for session in sessions:
        session.close()
    return seconds * 1e6 / tokens


def memory() -> dict[str, int]:
    """Megabytes of the GPU and of this process that are in use."""
    import torch

    free, total = torch.cuda.mem_get_info()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"gpu_mb": (total - free) >> 20, "host_mb": pages * os.sysconf("SC_PAGESIZE") >> 20}


def soak(generator: TextGenerator, tokens: int) -> dict[str, Any]:
    """Generate many tokens in answers of all lengths; memory after each tenth of them."""
    seen, start, found, length = 0, time.perf_counter(), [], 0
    while seen < tokens:
        length = length % 900 + 37
        prompt = [(7 * seen + i) % 5000 for i in range(1 + length % 50)]
        seen += sum(1 for _ in generator.tokens(prompt, SAMPLING, length))
        found += [memory()] * (seen * 10 // tokens - len(found))
    return {"tokens": seen, "seconds": round(time.perf_counter() - start, 1), "by_tenths": found}


def command_line(program: Path, count: int) -> dict[str, Any]:
    """What ``aoti-plugins generate`` says of an answer."""
    command = [sys.executable, "-m", "aoti_plugins", "generate", str(program), "w1 w2 w3"]
    limits = ["--max-new-tokens", str(count), "--temperature", "0.8", "--json"]
    done = subprocess.run([*command, *limits], capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr[-400:]}
    found = json.loads(done.stdout)
    return {name: found[name] for name in found if name not in ("text", "tokens")}


def measure(program: Path, count: int, soaked: int) -> dict[str, Any]:
    """All figures of a program."""
    step_us = bare_step_us(program, count)
    with TextGenerator(program) as generator, TextGenerator(program, on_device=False) as on_host:
        row: dict[str, Any] = {
            "bare_step_us": step_us,
            "greedy_us": token_us(generator, Sampling(), count),
            "sampled_us": token_us(generator, SAMPLING, count),
            "sampled_on_host_us": token_us(on_host, SAMPLING, count),
            "four_sessions_us": sessions_us(generator, count),
        }
        row = {name: round(value, 1) for name, value in row.items()}
        row["share_of_the_step"] = round(row["bare_step_us"] / row["sampled_us"], 3)
        if soaked:
            row["soak"] = soak(generator, soaked)
    row["command_line"] = command_line(program, count)
    return row


def export(checkpoint: Path, program: Path, how: tuple[str, ...]) -> float | None:
    """Export for a GPU, unless the program is there; the seconds that it took."""
    if program.exists():
        return None
    start = time.perf_counter()
    ways = ["--device", "cuda", "--method-style", "prefill-decode", "--sample-on-device"]
    speculation.export(checkpoint, program, [*ways, *how])
    return round(time.perf_counter() - start, 1)


def main() -> None:
    """Export, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=["int4"], help="none, fp8, int8, int4")
    parser.add_argument("--target", default="native")
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--count", type=int, default=512, help="tokens of an answer")
    parser.add_argument("--soak", type=int, default=100_000, help="tokens; of the first kind")
    parser.add_argument("--folder", type=Path, help="where programs are, or are made and stay")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = options.folder or Path(name)
        programs = [folder / f"{kind}.pte" for kind in options.kinds]
        if not all(program.exists() for program in programs):
            speculation.write_checkpoint(folder / "model", WIDTH, options.layers, VOCABULARY)
        with ThreadPoolExecutor() as exports:  # side by side; measured is only behind them
            how = (("--target", options.target, "--quantize", kind) for kind in options.kinds)
            seconds = list(exports.map(partial(export, folder / "model"), programs, how))
        for index, (kind, program) in enumerate(zip(options.kinds, programs, strict=True)):
            found = measure(program, options.count, options.soak if index == 0 else 0)
            rows[kind] = {"export_s": seconds[index], "bytes": program.stat().st_size, **found}
            print(kind, json.dumps(rows[kind]), flush=True)
            environment.save(options.output, {"layers": options.layers, "programs": rows})


if __name__ == "__main__":
    main()
