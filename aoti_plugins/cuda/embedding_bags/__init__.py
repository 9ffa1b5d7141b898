"""Sums and maxima over bags of rows for CUDA programs: kernels that are compiled into the blob.

``kernels`` holds the Triton code, ``op`` is what a graph calls, ``decompositions`` puts it there.
Importing this package imports neither torch nor triton.
"""
