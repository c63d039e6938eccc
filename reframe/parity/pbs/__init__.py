"""PBS under ReFrame: its nodes, and what ReFrame's own backend `pbs` does not see of its jobs."""
