"""ReFrame's start: it inspects the whole stack for warnings that it has silenced itself."""

from __future__ import annotations

import inspect
import warnings


class _Inspect:
    """The module `inspect`, but for the stack of a warning that nobody will see."""

    def __getattr__(self, name: str):
        return getattr(inspect, name)

    @staticmethod
    def stack():
        from reframe.core.warnings import ReframeDeprecationWarning
        action, _, category, *_ = (warnings.filters or [('', None, Warning)])[0]
        silenced = action == 'ignore' and category is ReframeDeprecationWarning
        return [] if silenced else inspect.stack()[1:]


def skip_silenced_warnings() -> None:
    """Let ReFrame not look for the caller of a deprecation warning that it has silenced.

    ReFrame 4.10: every instance of a check silences the warnings of its deprecated variables and then
    gives two, each with inspect.stack(): a quarter of the time that listing 90 checks takes.
    """
    import reframe.core.warnings
    reframe.core.warnings.inspect = _Inspect()
