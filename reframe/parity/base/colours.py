"""Rich's console, but for the exit code where nobody reads on: Rich ends with 1, which means regressed."""

from __future__ import annotations

from collections.abc import Callable

import rich.console
from rich.text import Text

from parity.base import errors


class Console(rich.console.Console):
    def on_broken_pipe(self) -> None:
        errors.unread()


def writer() -> Callable[[str, str], None] | None:
    """Return what prints a line in a style; None where standard output shows no colours."""
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    if console.color_system:
        return lambda text, style: console.print(Text(text, style=style))
    return None
