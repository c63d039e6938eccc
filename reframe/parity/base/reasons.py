"""Reasons of failed cases, in a few lines: a reason is cut at its source. A program may print megabytes in one
line, ReFrame keeps a reason several times a case, and SQLite refuses a session of a gigabyte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from itertools import islice

#: Characters of a reason, and of a complaint, which is a part of one.
LONGEST, COMPLAINT = 400, 240
#: No line is searched further than this.
_LINE = 2000
#: The reason of a case that was left out because the night's window ended (`nightly:` in system.yaml).
WINDOW_ENDED = 'the window of the night ended'
#: How a program that parity brings into a job begins its own reason.
OURS = 'parity: '
_RULE = re.compile(r'[-=*_ ]{8,}')
_ERROR = re.compile(
    r'\berrors?\b|\bfatal|\babort|\bfail(ed|ure|s)?\b|\bcan ?not\b|\bcan\'t\b|\bcouldn.t\b|\bcould not\b|'
    r'\bunable\b|\bdenied\b|\binvalid\b|\billegal\b|not found\b|\bno such\b|\bno space\b|\bnot enough\b|'
    r'\bunknown\b|\bun(recognized|reachable)\b|\brefused\b|\bexceeded\b|\btimed out\b|segmentation fault|'
    r'\bkilled\b|out.of.memory|oom.kill|bad_alloc|MemoryError|due to time limit|read-only file system', re.I)
#: Lines with such a word that are no errors.
_HARMLESS = re.compile(r'\bwarn(ing)?\b|\b(no|0|without) (errors?|failures?)\b|\berrors?\s*[:=]\s*0\b|'
                       r'another transport will be used|0 to see all help / error messages', re.I)
#: What tells the end that an error made, not the error: mpirun, srun and slurmstepd of a program that ended badly.
_AFTER = re.compile(
    r'^Primary job\s+terminated|^mpi(run|exec) (detected|noticed) that|^srun: Job step aborted|ORTE_ERROR_LOG|'
    r'^srun: error: \S+: tasks? [\d,-]+: (Exited with|Killed|Terminated|Aborted)|'
    r'^slurmstepd\S*: error: \*\*\* (STEP|JOB) \S+ ON \S+ CANCELLED(?!.*DUE TO)')
#: How Open MPI begins what it frames.
_OPEN_MPI = re.compile(r'mpi(run|exec) |An? (ORTE|PRTE|PMIx)|MPI_|Open MPI')
_TRACEBACK = 'Traceback (most recent call last):'
_CHAINED = ('The above exception was', 'During handling of the above')


class Kind(str, Enum):
    """The kind of a reason, for whatever is decided by one: its sentence is for people alone."""

    NONE = ''
    # of a failure
    NODE = 'node'                   # it failed, or did not start
    LIMIT = 'limit'                 # of time or memory
    CANCELLED = 'cancelled'         # the job was taken back
    PLACEMENT = 'placement'         # the ranks ran elsewhere than asked
    ENDED = 'ended'                 # the program, badly, after its whole output
    STOPPED = 'stopped'             # the run, before the case ended
    LAUNCH = 'launch'               # each rank started alone
    UNREAD = 'unread'               # the output is none that parity reads
    RAN = 'ran'                     # the test ran; a perflog does not say where, nor why it failed
    # of what is missing
    NO_FIGURE = 'no figure'         # the test ran without it
    # of a skip
    WINDOW = 'window'               # of the night: it ended before the job began
    NO_PROGRAM = 'no_program'
    CACHED = 'cached'
    SIZE = 'size'
    SAME = 'same'                   # as another case
    RANKS = 'ranks'
    NODES = 'nodes'
    IO_BUDGET = 'io_budget'
    WAIVED = 'waived'
    # of a figure in print
    FLAGGED = 'flagged'             # it is shown, and used for nothing


#: The reason of a case that failed after its whole output ends so.
COMPLETE = 'although the output is complete'
#: What tells the kind of a reason without one: of ReFrame, or of a session of before.
_BEGINS = {
    'a node ': Kind.NODE, 'time limit': Kind.LIMIT, 'deadline': Kind.LIMIT, 'CPU time limit': Kind.LIMIT,
    'memory exceeded': Kind.LIMIT, 'virtual memory': Kind.LIMIT, 'placement: ': Kind.PLACEMENT,
    'cancelled': Kind.CANCELLED,
    'maximum pending time exceeded': Kind.CANCELLED}
_HOLDS = {
    WINDOW_ENDED: Kind.WINDOW, 'size=': Kind.SIZE, 'the same as': Kind.SAME,
    'one rank': Kind.RANKS, 'nodes: needs': Kind.NODES, 'io_budget': Kind.IO_BUDGET}


def kind(status: str, text: str) -> Kind:
    """Return the kind of a reason that has none: only here does a sentence decide anything."""
    if status == 'failed' and text.endswith(COMPLETE):
        return Kind.ENDED
    if status == 'failed':
        return next((of for words, of in _BEGINS.items() if text.startswith(words)), Kind.NONE)
    return next((of for words, of in _HOLDS.items() if status == 'skipped' and words in text), Kind.NONE)


def cut(text: str, longest: int = LONGEST) -> str:
    """Return ``text``, or its first characters and how many there were."""
    if len(text) <= longest:
        return text
    mark = f' ... (cut: {len(text)} characters)'
    return text[:longest - len(mark)] + mark


def complaint(stderr: str) -> str:
    """Return parity's reason in a job's standard error, else the first line of an error, else the last line."""
    lines = [line.rstrip() for line in stderr.splitlines()]
    after = ''
    for told in (*(line for line in lines if line.startswith(OURS)), *_telling(lines)):
        if not _AFTER.search(told, 0, _LINE):
            return cut(told, COMPLAINT)
        after = after or told
    said = [line for line in lines if line and not _RULE.fullmatch(line)]
    return cut(after or (said[-1].strip() if said else ''), COMPLAINT)


def of_reframe(printed: str) -> list[str]:
    """Return the lines in which ReFrame says what failed and why, each once."""
    lines = [line.strip(' *') for line in printed.splitlines()
             if re.match(r'\s*\* (Test file|Reason):|.*(ERROR|error):', line)]
    return list(dict.fromkeys(lines[:4]))


def _telling(lines: list[str]) -> Iterator[str]:
    """Yield whatever tells an error, in order."""
    at, framed = 0, False
    while at < len(lines):
        line, end = lines[at].strip(), at + 1
        if _RULE.fullmatch(line):
            framed = not framed and line.startswith('-')
        elif line == _TRACEBACK:
            end, line = _exception(lines, at)
            yield line
        elif framed and line:                       # mpirun frames what it tells, and breaks its lines
            close = next((i for i in range(at, len(lines)) if _RULE.fullmatch(lines[i])), len(lines))
            told = _paragraph([each.strip() for each in lines[at:close]])
            harmless = any(_HARMLESS.search(each, 0, _LINE) for each in lines[at:close])
            if (_ERROR.search(told, 0, _LINE) or _OPEN_MPI.match(told)) and not harmless:
                yield told
            end = close
        elif _ERROR.search(line, 0, _LINE) and not _HARMLESS.search(line, 0, _LINE):
            code = next((each.partition('*** ')[2] for each in lines[at + 1:at + 5] if 'MPI_ERR_' in each), '')
            yield f'{line}: {code}' if code and 'An error occurred in' in line else line
        at = end


def _paragraph(block: list[str]) -> str:
    """Return the first paragraph on one line; the second, too, where the first ends with a colon."""
    ends = [i for i, line in enumerate(block) if not line] + [len(block)] * 2
    first = ' '.join(block[:ends[0]])
    return ' '.join((first, *block[ends[0] + 1:ends[1]])) if first.endswith(':') else first


def _exception(lines: list[str], at: int) -> tuple[int, str]:
    """Return (end, text) of the exception of the last traceback in the chain that begins at line ``at``."""
    while True:
        ends = (i for i in range(at + 1, len(lines)) if lines[i] and not lines[i][0].isspace())
        said = next(ends, len(lines) - 1)
        then = list(islice((i for i in range(said + 1, len(lines)) if lines[i]), 2))
        if len(then) < 2 or not lines[then[0]].startswith(_CHAINED) or lines[then[1]] != _TRACEBACK:
            return said + 1, lines[said].strip()
        at = then[1]
