"""The line that runs one case again, and nothing else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from parity.plan.identity import swept_apart

#: Options of reframe that make a case what it is; each has one argument.
_KEPT = ('-S', '--setvar', '-P', '--parameterize', '-J', '--job-option', '--mode')
_JOB = ('-J', '--job-option')
#: Job options that say where a job runs: a rerun says so itself.
_PLACES = re.compile(r'(nodelist|exclude|w|x)(=|$)')
#: Schedulers that are told nodes by `-J nodelist=`: Slurm's own, and PBS by what parity makes of it (parity.pbs).
NAMES_NODES = ('slurm', 'squeue', 'pbs')
#: What means something in ReFrame's -n, a regular expression. '@' would make it the name of a variant.
_SPECIAL = re.compile(r'([.^$*+?{}\[\]\\|()])')


def line(case: str, system: str, partition: str, environ: str, size: str, cmdline: str,
         nodes: Sequence[str] = ()) -> str:
    """``ci/nightly ...`` for bash; ``partition`` and ``environ`` are '' where the case has one only.

    ``cmdline``: that of its session, for -S, -P, -J and --mode; ``size`` in case it was said by other means.
    ``nodes``: where it ran, and shall run again; none: wherever the scheduler likes.
    The pattern is met from end to end: the name of one case may be the beginning of another's.
    """
    kept = [word for word in _kept(cmdline) if not (nodes and word[0] in _JOB and _PLACES.match(word[1]))]
    words = ['ci/nightly', '--system', f'{system}:{partition}' if partition else system]
    words += ['-p', f'^{_pattern(environ)}$'] if environ else []
    parameters = {value.partition('=')[0].rpartition('.')[2] for option, value in kept
                  if option in ('-P', '--parameterize')}
    own, swept = swept_apart(case, parameters)
    words += ['-n', f'^{_pattern(own.replace(" ", ""))}$']
    for option, value in kept:
        words += [option, value] if option not in ('-P', '--parameterize') else []
    if size != 'quick' and f'size={size}' not in words + swept and '--mode' not in words:
        words += ['-S', f'size={size}']
    for parameter in swept:
        words += ['-P', parameter]
    if nodes:
        words += ['-J', f'nodelist={",".join(nodes)}']
    return shlex.join(words)


def _pattern(name: str) -> str:
    return _SPECIAL.sub(r'\\\1', name).replace('@', '.')


def _kept(cmdline: str) -> list[tuple[str, str]]:
    """The options of the session that its reruns need, with their arguments."""
    found, words = [], iter(shlex.split(cmdline)[1:])
    for word in words:
        name, equals, value = word.partition('=')
        if word in _KEPT:
            found.append((word, next(words, '')))
        elif equals and name in _KEPT and name.startswith('--'):
            found.append((name, value))
        elif word[:2] in _KEPT and not word.startswith('--'):
            found.append((word[:2], word[2:]))
    return found
