"""Rich's console, but for the exit code where nobody reads on: Rich ends with 1, which means regressed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

import rich.console
from rich.text import Text

from parity.base import errors


class Console(rich.console.Console):
    def on_broken_pipe(self) -> None:
        errors.unread()


def lines(said: Iterable[tuple[str, str]]) -> None:
    """Print (text, style) a line; colours only on a terminal, lines never cut, signs that the terminal has."""
    console = Console(soft_wrap=True, highlight=False, emoji=False)
    known = 'utf' in console.encoding.lower()
    for text, style in said:
        console.print(Text(text if known else plain(text), style=style))


#: Signs of ours in ASCII: bars of shares and of nights, marks.
_ASCII = {'·': '|', '…': '...', '—': '-', '±': '+-', '×': 'x', 'µ': 'u', '\u202f': ' ',
          **dict(zip('▏▎▍▌▋▊▉', '    ###', strict=True)), **dict(zip('▁▂▃▄▅▆▇█', '__..--##', strict=True))}


def plain(text: str) -> str:
    """Return the text in ASCII: signs of ours by others, letters without accents, anything else as `?`."""
    text = re.sub(r'[^\x00-\x7f]', lambda sign: _ASCII.get(sign[0], sign[0]), text)
    return unicodedata.normalize('NFKD', text).encode('ascii', 'replace').decode()
