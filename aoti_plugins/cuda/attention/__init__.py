"""Attention for CUDA programs: Triton kernels of our own that are compiled into the blob.

``target`` says for which GPU, ``config`` chooses kernel and tile sizes by the shapes, ``kernels``
holds the Triton code, ``launch`` goes from tensors to launches, ``op`` is what a graph calls.
Importing this package imports neither torch nor triton.
"""
