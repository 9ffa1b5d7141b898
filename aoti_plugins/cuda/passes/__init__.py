"""Graph passes of the CUDA plugin, one per file."""
