"""The measurement of a contract's clauses: what there is to measure, and its sessions of ReFrame."""
