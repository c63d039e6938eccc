"""Parsers of the codes' outputs: one pure function ``read(text) -> (figures, facts)`` a code. It raises Incomplete
where something is missing, Wrong where the answer is bad or figures contradict each other."""

from typing import Any

#: The figures by metric, and what was run.
Read = tuple[dict[str, float], dict[str, Any]]


class Incomplete(ValueError):
    """The output ends, or a part of it is absent, before the result is there: infrastructure."""


class Wrong(ValueError):
    """The program ran to its end and its answer is bad: failed verification, bad residual."""
