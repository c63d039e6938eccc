"""Rich's console, but for the exit code where nobody reads on: Rich ends with 1, which means regressed."""

from __future__ import annotations

import rich.console

from parity.base import errors


class Console(rich.console.Console):
    def on_broken_pipe(self) -> None:
        errors.unread()
