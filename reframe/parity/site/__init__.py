"""Systems for ReFrame: systems/<name>/system.yaml, completed by detection."""
