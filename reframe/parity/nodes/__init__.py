"""The nodes of a system: state, speed beside their peers, turns in a night, the gate that one passes.

`listing` and `history` compare nodes by what is stored. `turns` and `gate` measure them. `words` has the text."""
