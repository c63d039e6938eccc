"""Slurm and PBS: their commands, the nodes and states of their jobs, the placement of ranks."""
