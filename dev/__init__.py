"""parity's own benchmarks, the operating curve and the docs generator: not shipped."""
