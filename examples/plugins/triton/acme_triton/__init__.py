"""An op with a Triton kernel. It is in ``acme_triton.op``, to be imported by models."""
