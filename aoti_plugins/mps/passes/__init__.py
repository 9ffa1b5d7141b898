"""Graph passes of the MPS device."""
