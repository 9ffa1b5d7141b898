"""One row times a weight of floats of 8 or 4 bits: a kernel that is compiled into the blob.

``kernels`` holds the Triton code, ``op`` is what a graph calls; the pass ``float_rows`` puts it
there. Importing this package imports neither torch nor triton.
"""
