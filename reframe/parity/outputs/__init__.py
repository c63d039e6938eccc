"""Parsers of the codes' outputs: one pure function ``parse(text) -> metrics`` a code."""


class Incomplete(ValueError):
    """The output ends, or a part of it is absent, before the result is there: infrastructure."""


class Wrong(ValueError):
    """The program ran to its end and its answer is bad: failed verification, bad residual."""
