"""What this machine's memory and processor can do, in a fraction of a second."""

from __future__ import annotations

import ctypes
import timeit
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from aoti_plugins.cuda.driver_library import open_driver
from aoti_plugins.profiling.profile import Machine

_COPIED_NBYTES = 1 << 26
_PRODUCT_SIZE = 768
_TIMES = 5
# Of cuda.h's CUdevice_attribute.
_MULTIPROCESSORS, _MEMORY_CLOCK_RATE, _MEMORY_BUS_WIDTH, _MAJOR, _MINOR = 16, 36, 37, 75, 76


def measured_bandwidth(threads: int = 1) -> float:
    """Bytes a second that copies by numpy, one on each thread, read and write in host memory."""
    import numpy

    sources = numpy.array_split(numpy.ones(_COPIED_NBYTES, numpy.uint8), threads)
    targets = numpy.array_split(numpy.zeros(_COPIED_NBYTES, numpy.uint8), threads)
    with ThreadPoolExecutor(threads) as team:
        times = timeit.repeat(
            lambda: list(team.map(numpy.copyto, targets, sources)), repeat=_TIMES, number=1
        )
    return 2 * _COPIED_NBYTES / min(times)


def gpu_bandwidth() -> float | None:
    """Bytes a second of the first NVIDIA GPU's memory by its clock and width, as its driver says.

    ``None`` where there is no driver, or it does not say.
    """
    found = _gpu_attributes(_MEMORY_CLOCK_RATE, _MEMORY_BUS_WIDTH)
    if found is None:
        return None
    kilohertz, bits = found
    return 2e3 * kilohertz * bits / 8 or None  # both edges of the clock


def _gpu_attributes(*attributes: int) -> list[int] | None:
    """What the driver says of the first GPU; ``None`` where there is no driver, or it does not."""
    driver, device = open_driver(), ctypes.c_int()
    if driver is None or driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    found = []
    for attribute in attributes:
        value = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            return None
        found.append(value.value)
    return found


def machine_of(device: str) -> Machine:
    """What the machine can do where programs for a device run.

    Of GPUs nothing is measured: an NVIDIA one has what its driver and the datasheet of its kind
    say, an Apple one the memory of the CPU. What is not known is 0.
    """
    if device == "cuda":
        return Machine(gpu_bandwidth() or 0.0, _gpu_flops(), "products of 16 bits")
    if device == "mps":
        return Machine(measured_bandwidth(), 0.0, "")
    return measured_cpu()


def _gpu_flops() -> float:
    """Of products of 16 bits: that of the known GPU of its kind that is most like it."""
    from aoti_plugins.cuda.target import GPUS, PORTABLE

    found = _gpu_attributes(_MULTIPROCESSORS, _MAJOR, _MINOR)
    if found is None:
        return 0.0
    count, *capability = found
    alike = [one for one in GPUS if one.capability == tuple(capability) and one.name != PORTABLE]
    nearest = min(alike, key=lambda one: abs(one.multiprocessors - count), default=None)
    return nearest.f16_flops * count / nearest.multiprocessors if nearest else 0.0


def measured_cpu() -> Machine:
    """Measure the CPU with numpy: a copy, on one thread, and a product, on as many as it takes."""
    import numpy

    matrix = numpy.ones((_PRODUCT_SIZE, _PRODUCT_SIZE), numpy.float32)
    result = numpy.zeros_like(matrix)
    product = partial(numpy.matmul, matrix, matrix, out=result)
    times = timeit.repeat(product, repeat=_TIMES, number=1)
    return Machine(measured_bandwidth(), 2 * _PRODUCT_SIZE**3 / min(times))
