"""The nodes of a system: their state, and their speed beside their peers. `words` has the text."""
