"""The benchmark programs of a machine: their providers, their identity, and what they need to run well."""
