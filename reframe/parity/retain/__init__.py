"""What is kept of results, and results of several machines put together."""
