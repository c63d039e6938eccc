"""Jobs: one description, rendered for Slurm, for PBS, or as plain bash; submitted and followed."""
