"""The MPS device: programs for Apple GPUs, lowered on a Mac or on Linux."""
