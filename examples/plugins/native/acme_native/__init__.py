"""An op with kernels in C++ and CUDA. It is in ``acme_native.op``, to be imported by models."""
