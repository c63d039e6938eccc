"""Pure functions on arrays: noise, rules, intervals, bounds. docs/regression.md has the rules' measured rates."""
