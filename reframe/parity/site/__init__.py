"""A system's description: systems/<name>/system.yaml and its schema."""
