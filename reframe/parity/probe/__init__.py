"""`parity probe`: what a login node tells of its cluster, written down as systems/<name>/system.yaml."""
