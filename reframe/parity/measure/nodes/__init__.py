"""Nodes that are measured: the turns of a night, and the gate that a node passes after a repair."""
