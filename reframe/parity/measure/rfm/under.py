"""The settings that ReFrame runs under: parity's own, or others, under which none of parity's checks can run."""

from __future__ import annotations

from reframe.core import runtime
from reframe.core.exceptions import ReframeFatalError

from parity.base import errors
from parity.base.errors import UsageError

#: Set when parity's settings have changed this process's ReFrame.
installed = False


def demand() -> None:
    """End a ReFrame that loads one of parity's checks under other settings: it would skip each, and pass."""
    if not installed:
        errors.run(_refuse)


def _refuse() -> None:
    try:
        sources = runtime.runtime().site_config.sources
    except ReframeFatalError:       # a command of parity imports the check, and no ReFrame runs
        return
    others = [file for file in sources if file != '<builtin>']
    if others:
        remedy = (f'leave -C and RFM_CONFIG_FILES to . ci/activate, and write reframe_config: {others[-1]} into '
                  'systems/NAME/system.yaml')
    else:
        remedy = '. ci/activate sets RFM_CONFIG_FILES'
    raise UsageError(f"parity's checks run under parity's settings only, and ReFrame read "
                     f'{", ".join(others) or "none but its own"}: {remedy}')
