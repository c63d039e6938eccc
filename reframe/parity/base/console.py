"""Lines and progress for a person. Rich, which takes long to load, is loaded only for colours."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator

from parity.base.text import visible

#: A line of text, or a line and its style.
Line = str | tuple[str, str]


def styled(line: Line) -> tuple[str, str]:
    return (line, '') if isinstance(line, str) else line


def lines(said: Iterable[Line]) -> None:
    """Print the lines; colours only on a terminal, lines never cut, signs that the terminal has.
    Nothing that a job printed commands the terminal."""
    write = _print
    if sys.stdout.isatty() or not os.environ.keys().isdisjoint(('FORCE_COLOR', 'TTY_COMPATIBLE')):
        from parity.base import colours
        write = colours.writer() or write
    in_ascii = ascii_only()
    for text, style in map(styled, said):
        write(plain(visible(text)) if in_ascii else visible(text), style)
    sys.stdout.flush()


def ascii_only() -> bool:
    """Return whether standard output promises no more than ASCII."""
    # Python writes UTF-8 in the C locale, which promises ASCII
    encoding = (sys.stdout.encoding or 'utf-8').lower()
    return 'utf' not in encoding or os.environ.get('LC_ALL') in ('C', 'POSIX')


def _print(text: str, _: str) -> None:
    print(text.expandtabs())


def say(text: str) -> None:
    """Print a line at once, as `lines` does."""
    lines([text])


#: Signs of ours in ASCII: bars of shares and of nights, marks.
_ASCII = {'·': '|', '…': '...', '—': '-', '±': '+-', '×': 'x', 'µ': 'u', '\u202f': ' ',
          **dict(zip('▏▎▍▌▋▊▉', '    ###', strict=True)), **dict(zip('▁▂▃▄▅▆▇█', '__..--##', strict=True)),
         **dict(zip('●○─│╎◂▸', '*o-|:<>', strict=True))}


def plain(text: str) -> str:
    """Return the text in ASCII: signs of ours by others, letters without accents, anything else as `?`."""
    text = re.sub(r'[^\x00-\x7f]', lambda sign: _ASCII.get(sign[0], sign[0]), text)
    return unicodedata.normalize('NFKD', text).encode('ascii', 'replace').decode()


#: Without a terminal a line tells the progress so often; how often parity looks for news.
EVERY_SECONDS, LOOK_SECONDS = 60.0, 15.0
#: How much is done, of how much (0: not known), and a line on it.
Progress = tuple[int, int, str]


@contextlib.contextmanager
def progress(state: Callable[[], Progress], news: Callable[[], bool] = lambda: False
             ) -> Iterator[Callable[[str], None]]:
    """Show the progress that ``state`` returns: the last line of a terminal, elsewhere a line a minute, and one at
    once where there is ``news``.

    Yields a function that prints a text above it."""
    if not sys.stdout.isatty():
        ended = threading.Event()
        threading.Thread(target=print_often, args=(state, ended.wait, news), daemon=True).start()
        try:
            yield lambda text: print(text, flush=True)
        finally:
            ended.set()
        return
    from rich.progress import BarColumn, ProgressColumn
    from rich.progress import Progress as Bar
    from rich.text import Text

    from parity.base.colours import Console

    class Line(ProgressColumn):
        def render(self, task):
            done, total, text = state()
            bar.update(task.id, completed=done, total=total or None)
            return Text(text, style='dim', overflow='ellipsis', no_wrap=True)

    console = Console(soft_wrap=True, highlight=False, emoji=False)
    with Bar(BarColumn(20), Line(), console=console, transient=True, refresh_per_second=1) as bar:
        bar.add_task('', total=None)
        yield lambda text: bar.console.print(Text.from_ansi(text))


def print_often(state: Callable[[], Progress], ended: Callable[[float], bool], news: Callable[[], bool]) -> None:
    """Print the progress now and then, until it has ``ended``."""
    last = time.monotonic()
    while not ended(LOOK_SECONDS):
        if news() or time.monotonic() - last >= EVERY_SECONDS:
            last = time.monotonic()
            with contextlib.suppress(OSError, ValueError):      # nobody reads on: that does not end the work
                print(f'parity: {state()[2]}', flush=True)
