"""The CUDA plugin."""
