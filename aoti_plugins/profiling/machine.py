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
_MEMORY_CLOCK_RATE, _MEMORY_BUS_WIDTH = 36, 37  # of cuda.h's CUdevice_attribute


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
    driver, device = open_driver(), ctypes.c_int()
    if driver is None or driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return None
    found = []
    for attribute in (_MEMORY_CLOCK_RATE, _MEMORY_BUS_WIDTH):
        value = ctypes.c_int()
        if driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device):
            return None
        found.append(value.value)
    kilohertz, bits = found
    return 2e3 * kilohertz * bits / 8 or None  # both edges of the clock


def measured_cpu() -> Machine:
    """Measure the CPU with numpy: a copy, on one thread, and a product, on as many as it takes."""
    import numpy

    matrix = numpy.ones((_PRODUCT_SIZE, _PRODUCT_SIZE), numpy.float32)
    result = numpy.zeros_like(matrix)
    product = partial(numpy.matmul, matrix, matrix, out=result)
    times = timeit.repeat(product, repeat=_TIMES, number=1)
    return Machine(measured_bandwidth(), 2 * _PRODUCT_SIZE**3 / min(times))
