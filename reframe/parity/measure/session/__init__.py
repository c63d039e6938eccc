"""One run of ReFrame: its settings, its lock, its plan, its journal, and the recovery of a killed one."""
