"""What a system is: systems/<name>/system.yaml, read, completed by detection, given to ReFrame."""
