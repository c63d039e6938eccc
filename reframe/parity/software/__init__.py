"""Which benchmark programs are here, whose they are, and what they need to run well."""
