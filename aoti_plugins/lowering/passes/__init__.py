"""Graph passes, one per file; the device plugins offer them through ``aoti_graph_passes``."""
