"""Pure functions on arrays: the noise of a history, the rules that judge it, intervals, bounds of a reference.

`docs/regression.md` says what the rules were measured to do."""
