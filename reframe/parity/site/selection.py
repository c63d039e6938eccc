"""ReFrame's options that select the cases of a session again."""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from parity.site.identity import swept_apart, undistributed

#: Options of ReFrame that select cases, and that say how often.
_SELECTS = (('-n', '--name'), ('-x', '--exclude'), ('-t', '--tag'), ('-T', '--exclude-tag'), ('--system',),
            ('-E', '--filter-expr'), ('-p', '--prgenv'), ('--repeat',), ('-P', '--parameterize'))


class Rerun(NamedTuple):
    """One ReFrame run that repeats cases of a session."""

    partition: str
    place: Hashable             # as the caller names it
    arguments: list[str]


def again(system: str, cases: Iterable[tuple[str, str, Hashable, str]], arguments: Sequence[str]
          ) -> Iterator[Rerun]:
    """Yield one ReFrame run for each partition, environment and place.

    ``cases``: partition, environment, place and name of each. ``arguments`` are those of their session: what they
    set for the checks is set again."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for options in _SELECTS:
        parser.add_argument(*options, action='append', default=[])
    given, kept = parser.parse_known_args(list(arguments))
    swept_names = {one.partition('=')[0].rpartition('.')[2] for one in given.parameterize}
    groups: dict[tuple, set[str]] = defaultdict(set)
    for partition, environ, place, name in cases:
        # -n selects before --distribute and -P name what they make
        case, swept = swept_apart(undistributed(name)[0], swept_names)
        groups[partition, environ, place, tuple(swept)].add(case)
    for (partition, environ, place, swept), names in sorted(groups.items()):
        command = [*kept, *_selection(system, partition, environ, names)]
        for parameter in swept:
            command += ['-P', parameter]
        yield Rerun(partition, place, command)


def _selection(system: str, partition: str, environ: str, cases: set[str]) -> list[str]:
    """Return the options that select the very cases.

    ReFrame matches a pattern against the start of a name without spaces. A repeat's name goes on with %; an '@'
    would make it the name of a variant."""
    patterns = []
    for case in sorted(cases):
        pattern = re.escape(case.replace(' ', '')).replace('@', '.')
        patterns.append(f'^{pattern}(%|$)')
    return ['--system', f'{system}:{partition}', '-p', f'^{re.escape(environ)}$', '-n', '|'.join(patterns)]
