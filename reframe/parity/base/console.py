"""Rich's console, but for the exit code where nobody reads on: Rich ends with 1, which means regressed."""

from __future__ import annotations

from collections.abc import Iterable

import rich.console
from rich.text import Text

from parity.base import errors


class Console(rich.console.Console):
    def on_broken_pipe(self) -> None:
        errors.unread()


def lines(said: Iterable[tuple[str, str]]) -> None:
    """Print (text, style) a line; colours only on a terminal, lines never cut."""
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    for text, style in said:
        console.print(Text(text, style=style))
