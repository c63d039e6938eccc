"""The benchmark programs on this machine: their origin, and what they need to run well."""
