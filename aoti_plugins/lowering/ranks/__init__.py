"""Programs for several ranks: one code, and constants of which each rank has its own."""
