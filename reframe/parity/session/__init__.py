"""One run of ReFrame: its lock, its plan, its journal, and the recovery of a killed one."""
