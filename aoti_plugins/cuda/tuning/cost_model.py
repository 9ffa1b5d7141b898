"""How long a GPU kernel takes, estimated from its binary, its launch and the figures of the GPU.

The estimates rank configurations of one kernel; they are no predictions. A multiprocessor holds as
many blocks at a time as registers, shared memory, warps and block slots allow; the grid is worked
off in rounds of that many. In a round every step of a block waits for memory once, moves its bytes,
looks up its cache lines and issues its instructions, whichever takes longest. Below all this lies
the time in which the GPU memory moves all bytes once.

Constants that are no figure of a GPU are in ``Constants``: latencies and efficiencies, fitted to
measurements on an H100 (tests/data/h100_configs.json.gz, docs/decisions/0010; ``line_rate`` to two
poolings, benchmarks/results/cuda_kernels.json). Latencies do not differ much between GPUs of the
last generations; everything else scales with ``CudaTarget``.

Nothing here imports torch or triton. All times are microseconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from aoti_plugins.cuda.target import WARP_SIZE, CudaTarget

_REGISTER_UNIT = 256  # a warp's registers are handed out in these
_SHARED_UNIT = 128
_MOST_REGISTERS = 255
_SHARPNESS = 3
_SYSTEM_SHARED = 1024  # of every block, from compute capability 8.0 on


@dataclass(frozen=True)
class Constants:
    """Latencies in microseconds, and fractions of the datasheet's rates.

    Attributes:
        launch: time from the end of a kernel to the end of an empty one that follows it.
        memory_latency: until the first bytes from device memory arrive.
        step_latency: least time of one step of a loop that waits for memory.
        sync: what a barrier or a reduction across warps adds to a step.
        memory_efficiency: reached share of the memory bandwidth.
        l2_bytes_per_cycle: bytes per cycle that a multiprocessor gets from the L2 cache.
        in_flight_latency: time for which requested bytes are under way (Little's law).
        line_rate: cache lines that a multiprocessor looks up in a cycle.
        issue_rate: instructions per cycle and scheduler.
        expansion: machine instructions for one of PTX.
        tensor_efficiency: reached share of the tensor cores' rate, at best.
        fma_efficiency: reached share of the float32 and float64 rates, by products outside the
            tensor cores.
        tensor_step: what a step of a matrix product adds to its arithmetic.
        library: what a library's kernel takes beyond its work and an empty kernel.
        library_tensor: reached share of the tensor cores' rate, by libraries.
        library_fma: reached share of the float32 and float64 rates, by libraries.
        unfused: what it costs that nothing can be fused into a library's call.
        spill: relative cost of one spilled register.
    """

    launch: float = 1.17
    memory_latency: float = 0.43
    step_latency: float = 0.34
    sync: float = 0.02
    memory_efficiency: float = 0.93
    l2_bytes_per_cycle: float = 46.0
    in_flight_latency: float = 0.77
    line_rate: float = 1.0
    issue_rate: float = 1.0
    expansion: float = 1.0
    tensor_efficiency: float = 0.85
    fma_efficiency: float = 0.19
    tensor_step: float = 0.02
    library: float = 1.3
    library_tensor: float = 0.8
    library_fma: float = 0.35
    unfused: float = 1.0
    spill: float = 0.01


CONSTANTS = Constants()


@dataclass(frozen=True)
class Launch:
    """What the compiler and the launch say of one candidate.

    Attributes:
        blocks: blocks of the grid.
        num_warps: warps of a block.
        registers: 32-bit registers of a thread.
        spills: spilled registers of a thread.
        shared_nbytes: shared memory of a block, static and dynamic.
    """

    blocks: int
    num_warps: int
    registers: int
    spills: int = 0
    shared_nbytes: int = 0


@dataclass(frozen=True)
class Traffic:
    """What a pointwise kernel or a reduction does.

    Attributes:
        nbytes: bytes read and written by all blocks; each tensor once.
        steps: iterations of the loop of a block; 1 without one.
        instructions: PTX instructions of a thread in one step; 0 if not known.
        reduces: whether threads of a block exchange values.
        contiguous_nbytes: bytes that neighbouring threads read in one piece; memory moves 32.
        lines: cache lines that the loads and stores of a warp look up in one step; a load whose
            threads read far apart looks up many.
    """

    nbytes: int
    steps: int = 1
    instructions: int = 0
    reduces: bool = False
    contiguous_nbytes: int = 128
    lines: float = 0.0


@dataclass(frozen=True)
class Product:
    """A matrix product ``[batch, m, k] @ [batch, k, n]``.

    Attributes:
        m: rows of the result.
        n: columns of the result.
        k: elements summed.
        batch: number of products.
        itemsize: bytes of an input element.
        rate: dtype for ``CudaTarget.matrix_flops``: a torch dtype name, or ``"tf32"``.
    """

    m: int
    n: int
    k: int
    batch: int
    itemsize: int
    rate: str

    @property
    def flops(self) -> float:
        """Operations, a multiply-add counted as two."""
        return 2.0 * self.m * self.n * self.k * self.batch

    @property
    def nbytes(self) -> int:
        """Bytes of inputs and result."""
        return (self.m * self.k + self.k * self.n + self.m * self.n) * self.batch * self.itemsize


@dataclass(frozen=True)
class Tile:
    """How a template cuts a matrix product.

    Attributes:
        block_m: rows of the result that a block computes.
        block_n: columns of the result that a block computes.
        block_k: elements summed in one step.
        num_stages: buffers of the pipelined loads; 1 is no pipeline.
    """

    block_m: int
    block_n: int
    block_k: int
    num_stages: int


def blocks_per_multiprocessor(gpu: CudaTarget, launch: Launch) -> int:
    """Blocks that one multiprocessor holds at a time; 0 if not even one fits."""
    registers = max(launch.registers, 16) * WARP_SIZE
    registers = -(-registers // _REGISTER_UNIT) * _REGISTER_UNIT
    # Every scheduler has its own quarter of the registers.
    warps = gpu.registers_per_multiprocessor // gpu.warp_schedulers // registers
    by_registers = warps * gpu.warp_schedulers // launch.num_warps
    by_warps = gpu.max_warps_per_multiprocessor // launch.num_warps
    shared = -(-launch.shared_nbytes // _SHARED_UNIT) * _SHARED_UNIT
    if shared > gpu.shared_memory_per_block:
        return 0
    by_shared = gpu.shared_memory_per_multiprocessor // (shared + _SYSTEM_SHARED)
    return min(by_registers, by_warps, by_shared, gpu.max_blocks_per_multiprocessor)


def kernel_time(gpu: CudaTarget, launch: Launch, traffic: Traffic) -> float:
    """Estimate a pointwise kernel or a reduction.

    Returns:
        Microseconds; infinity if the GPU cannot launch it.
    """
    fits = blocks_per_multiprocessor(gpu, launch)
    if not fits or not launch.blocks:
        return math.inf if not fits else CONSTANTS.launch
    resident = min(fits, -(-launch.blocks // gpu.multiprocessors))
    rounds = launch.blocks / (gpu.multiprocessors * resident)
    rounds = max(1.0, rounds) if rounds > 4 else math.ceil(rounds)
    waste = max(1.0, 32 / max(traffic.contiguous_nbytes, 1))
    step_nbytes = waste * traffic.nbytes / launch.blocks / traffic.steps * resident
    moved = step_nbytes / _multiprocessor_bandwidth(gpu)
    issued = (
        traffic.instructions
        * CONSTANTS.expansion
        * launch.num_warps
        * resident
        / (gpu.warp_schedulers * CONSTANTS.issue_rate * gpu.sm_clock_hz)
        * 1e6
    )
    looked_up = (
        traffic.lines * launch.num_warps * resident / (CONSTANTS.line_rate * gpu.sm_clock_hz) * 1e6
    )
    waited = CONSTANTS.step_latency + CONSTANTS.sync * traffic.reduces * math.log2(
        max(launch.num_warps, 1) + 1
    )
    # Steps of one block hide each other's latency, but not across barriers.
    overlapping = resident * (0.5 if traffic.reduces else 1.0)
    step = max(moved, issued, looked_up) + waited / max(1.0, overlapping)
    block = CONSTANTS.memory_latency + max(traffic.steps * step, waited)
    block *= 1 + CONSTANTS.spill * launch.spills
    floor = waste * traffic.nbytes / _memory_bandwidth(gpu)
    return CONSTANTS.launch + _both(rounds * block, floor + CONSTANTS.memory_latency)


def _both(one: float, two: float) -> float:
    """Time of two things that overlap: the longer one, and more the closer they are."""
    return (one**_SHARPNESS + two**_SHARPNESS) ** (1 / _SHARPNESS)


def _multiprocessor_bandwidth(gpu: CudaTarget) -> float:
    """Bytes per microsecond that one multiprocessor gets."""
    return CONSTANTS.l2_bytes_per_cycle * gpu.sm_clock_hz / 1e6


def _memory_bandwidth(gpu: CudaTarget) -> float:
    """Bytes per microsecond of device memory."""
    return CONSTANTS.memory_efficiency * gpu.memory_bandwidth / 1e6


def expected_launch(
    gpu: CudaTarget, product: Product, tile: Tile, num_warps: int, blocks: int
) -> Launch:
    """What the compiler will make of a template, without compiling it.

    The accumulators are in registers beside some forty others; the pipeline's buffers are in
    shared memory, one fewer where the last goes straight to registers (no wgmma).
    """
    elements = tile.block_m * tile.block_n / (WARP_SIZE * num_warps)
    registers = round(elements) + 44
    grouped = gpu.capability[0] == 9 and tile.block_m >= 64 and num_warps >= 4
    buffers = max(1, tile.num_stages - (0 if grouped else 1))
    shared = (tile.block_m + tile.block_n) * tile.block_k * product.itemsize * buffers
    spills = max(0, registers - _MOST_REGISTERS)
    return Launch(blocks, num_warps, min(registers, _MOST_REGISTERS), spills, shared)


def library_time(gpu: CudaTarget, product: Product) -> float:
    """Estimate a matrix product by cuBLASLt, which chooses its kernel when the program runs."""
    tiles = -(-product.m // 128) * -(-product.n // 64) * product.batch
    outside = product.rate in ("float32", "float64")
    efficiency = CONSTANTS.library_fma if outside else CONSTANTS.library_tensor
    rate = gpu.matrix_flops(product.rate) * efficiency / 1e6
    floor = product.nbytes / _memory_bandwidth(gpu)
    # Few tiles and a long sum: the sum is split, and a second kernel adds the parts.
    split = product.k >= 2048 and tiles * 4 < gpu.multiprocessors
    fixed = CONSTANTS.launch + CONSTANTS.memory_latency + CONSTANTS.library
    return fixed * (1 + split) + _both(floor, product.flops / rate)


def template_time(gpu: CudaTarget, launch: Launch, product: Product, tile: Tile) -> float:
    """Estimate a matrix product by a template without split sums.

    Returns:
        Microseconds; infinity if the GPU cannot launch it.
    """
    fits = blocks_per_multiprocessor(gpu, launch)
    if not fits:
        return math.inf
    steps = -(-product.k // tile.block_k)
    resident = min(fits, -(-launch.blocks // gpu.multiprocessors))
    rounds = math.ceil(launch.blocks / (gpu.multiprocessors * resident))
    busy = min(1.0, launch.blocks / gpu.multiprocessors)
    tile_nbytes = (tile.block_m + tile.block_n) * tile.block_k * product.itemsize
    flops = 2.0 * tile.block_m * tile.block_n * tile.block_k
    rate = gpu.matrix_flops(product.rate) * _tile_efficiency(gpu, launch, product, tile)
    computed = flops * resident / (rate / gpu.multiprocessors) * 1e6
    outside = product.rate in ("float32", "float64")
    computed /= CONSTANTS.fma_efficiency if outside else CONSTANTS.tensor_efficiency
    moved = tile_nbytes * resident / _multiprocessor_bandwidth(gpu)
    ahead = max(tile.num_stages - 1, 0.5)
    waited = CONSTANTS.in_flight_latency / ahead
    step = max(computed, moved, waited) + CONSTANTS.tensor_step
    block = CONSTANTS.memory_latency + steps * step
    block *= 1 + CONSTANTS.spill * launch.spills
    floor = product.nbytes / (_memory_bandwidth(gpu) * max(busy, 0.3))
    return CONSTANTS.launch + _both(rounds * block, floor + CONSTANTS.memory_latency)


def few_rows_time(gpu: CudaTarget, product: Product, tile: Tile, num_warps: int) -> float:
    """Estimate a product of one to a few rows by a kernel without tensor cores.

    A block multiplies all rows with ``tile.block_n`` columns and sums at the very end; threads hold
    one partial sum for each element of the tile.

    Returns:
        Microseconds; infinity if the GPU cannot launch it.
    """
    sums = tile.block_m * tile.block_n * tile.block_k / (WARP_SIZE * num_warps)
    registers = 18 + round(1.7 * sums)
    launch = Launch(
        blocks=-(-product.n // tile.block_n) * product.batch,
        num_warps=num_warps,
        registers=min(registers, _MOST_REGISTERS),
        spills=max(0, registers - _MOST_REGISTERS),
        shared_nbytes=512 * num_warps * tile.block_m,
    )
    traffic = Traffic(
        nbytes=product.nbytes,
        steps=-(-product.k // tile.block_k),
        instructions=80 + round(7 * sums),
        reduces=True,
    )
    return kernel_time(gpu, launch, traffic)


def _tile_efficiency(gpu: CudaTarget, launch: Launch, product: Product, tile: Tile) -> float:
    """Share of the tensor cores' rate that a tile of this shape reaches at best."""
    if product.rate in ("float32", "float64"):
        return min(1.0, tile.block_m * tile.block_n / launch.num_warps / 512)
    rows = min(1.0, tile.block_m / 64) if gpu.capability >= (9, 0) else 1.0
    per_warp = tile.block_m * tile.block_n / launch.num_warps
    return max(0.05, rows) * min(1.0, 0.4 + per_warp / 4096)
