"""`parity show CELL`."""

from __future__ import annotations

import sys

from rich.text import Text

from parity.base.console import Console
from parity.report.inspect import gather, text


def show(wanted: str, as_json: bool, session: str) -> None:
    """Print what is known of the cell. UsageError where ``wanted`` fits none, or several."""
    view = gather.view(wanted, session)
    if as_json:
        sys.stdout.write(view.model_dump_json(indent=1) + '\n')
        return
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    for line, style in text.lines(view):
        console.print(Text(line, style=style))
