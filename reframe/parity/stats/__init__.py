"""Pure functions on arrays: noise, rules, intervals, bounds; docs/regression.md says what the rules are worth."""
