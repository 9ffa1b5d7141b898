"""What this machine's memory and processor can do, in a fraction of a second."""

from __future__ import annotations

import time
from collections.abc import Callable

from aoti_plugins.profiling.profile import Machine

_COPIED_NBYTES = 1 << 26
_PRODUCT_SIZE = 768
_TIMES = 5


def measured_cpu() -> Machine:
    """Measure the CPU with numpy: a copy, on one thread, and a product, on as many as it takes."""
    import numpy

    source = numpy.ones(_COPIED_NBYTES, numpy.uint8)
    target = numpy.zeros_like(source)
    copy = _fastest(lambda: numpy.copyto(target, source))
    matrix = numpy.ones((_PRODUCT_SIZE, _PRODUCT_SIZE), numpy.float32)
    result = numpy.zeros_like(matrix)
    product = _fastest(lambda: numpy.matmul(matrix, matrix, out=result))
    return Machine(2 * _COPIED_NBYTES / copy, 2 * _PRODUCT_SIZE**3 / product)


def _fastest(work: Callable[[], object]) -> float:
    times = []
    for _ in range(_TIMES):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
