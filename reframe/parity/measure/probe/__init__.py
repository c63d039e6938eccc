"""`parity probe`: a login node's answers, written down as systems/<name>/system.yaml."""
