"""Graph passes of the CPU plugin, one per file."""
