"""Pure functions on arrays: noise, rules, intervals, bounds. docs/operating-curve.md has the measured rates."""
