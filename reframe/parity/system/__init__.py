"""What a system is: systems/<name>/system.yaml and its schema."""
