"""A contract's clauses: the runs that were made for them, the word of each, its line and its page."""
