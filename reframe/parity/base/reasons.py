"""Reasons of failed cases, in a few lines: a reason is cut at its source. A program may print megabytes in one
line, ReFrame keeps a reason several times a case, and SQLite refuses a session of a gigabyte."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

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
#: Lines that report the consequence of an error: mpirun, srun and slurmstepd on a program that ended badly.
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
    if status == 'failed':
        if text.endswith(COMPLETE):
            return Kind.ENDED
        for beginning, of_failure in _BEGINS.items():
            if text.startswith(beginning):
                return of_failure
    if status == 'skipped':
        for words, of_skip in _HOLDS.items():
            if words in text:
                return of_skip
    return Kind.NONE


def cut(text: str, longest: int = LONGEST) -> str:
    """Return ``text``, or its first characters and how many there were."""
    if len(text) <= longest:
        return text
    mark = f' ... (cut: {len(text)} characters)'
    return text[:longest - len(mark)] + mark


def complaint(stderr: str) -> str:
    """Return parity's reason in a job's standard error, else the first line of an error, else the last line."""
    lines = [line.rstrip() for line in stderr.splitlines()]
    own = [line for line in lines if line.startswith(OURS)]
    consequence = ''
    for error in (*own, *_errors(lines)):
        if not _AFTER.search(error, 0, _LINE):
            return cut(error, COMPLAINT)
        consequence = consequence or error
    if consequence:
        return cut(consequence, COMPLAINT)
    printed = [line for line in lines if line and not _RULE.fullmatch(line)]
    return cut(printed[-1].strip(), COMPLAINT) if printed else ''


def _says_error(text: str) -> bool:
    return bool(_ERROR.search(text, 0, _LINE))


def _is_harmless(line: str) -> bool:
    return bool(_HARMLESS.search(line, 0, _LINE))


def _errors(lines: list[str]) -> Iterator[str]:
    """Yield whatever reports an error, in order."""
    at, framed = 0, False
    while at < len(lines):
        line, end = lines[at].strip(), at + 1
        if _RULE.fullmatch(line):
            framed = not framed and line.startswith('-')
        elif line == _TRACEBACK:
            last = _exception(lines, at)
            yield lines[last].strip()
            end = last + 1
        elif framed and line:                       # mpirun frames what it tells, and breaks its lines
            end = next((i for i in range(at, len(lines)) if _RULE.fullmatch(lines[i])), len(lines))
            block = [inside.strip() for inside in lines[at:end]]
            text = _paragraph(block)
            if (_says_error(text) or _OPEN_MPI.match(text)) and not any(map(_is_harmless, block)):
                yield text
        elif _says_error(line) and not _is_harmless(line):
            yield line + _mpi_code(line, lines[at + 1:at + 5])
        at = end


def _mpi_code(line: str, following: list[str]) -> str:
    """Return ': ' and the code that MPI prints behind 'An error occurred in'; '' for another line."""
    if 'An error occurred in' not in line:
        return ''
    with_code = next((later for later in following if 'MPI_ERR_' in later), '')
    code = with_code.partition('*** ')[2]
    return f': {code}' if code else ''


def of_reframe(printed: str) -> list[str]:
    """Return the lines in which ReFrame says what failed and why, each once."""
    lines = [line.strip(' *') for line in printed.splitlines()
             if re.match(r'\s*\* (Test file|Reason):|.*(ERROR|error):', line)]
    return list(dict.fromkeys(lines[:4]))


def _paragraph(block: list[str]) -> str:
    """Return the first paragraph on one line; the second, too, where the first ends with a colon."""
    paragraphs: list[list[str]] = [[]]
    for line in block:
        if line:
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    first = ' '.join(paragraphs[0])
    if first.endswith(':') and len(paragraphs) > 1:
        return ' '.join([first, *paragraphs[1]])
    return first


def _exception(lines: list[str], at: int) -> int:
    """Return the number of the line of the exception of the last traceback in the chain that begins at ``at``."""
    while True:
        ends = (i for i in range(at + 1, len(lines)) if lines[i] and not lines[i][0].isspace())
        last = next(ends, len(lines) - 1)
        following = (i for i in range(last + 1, len(lines)) if lines[i])
        between, traceback = next(following, None), next(following, None)
        if traceback is None or not lines[between].startswith(_CHAINED) or lines[traceback] != _TRACEBACK:
            return last
        at = traceback
