"""The shape of mpiP 3's verbose report, the file PROGRAM.TASKS.PID.1.mpiP that MPI_Finalize writes.

    @ mpiP
    @ Command : ./cg.A.x
    ...
    @--- MPI Time (seconds) ----
    Task    AppTime    MPITime     MPI%
       0      1.598      0.275    17.23
    ...
    @--- End of Report ----

Every line between the first and the last must be one that mpiP writes: the file is its own, nobody else
prints into it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from . import Incomplete, Wrong
from .printed import whole

OPTIONS = '-k 0 -e'                # of the variable MPIP: calls instead of callsites, fixed decimals
TASKS = 'MPI Time (seconds)'
CALLSITES = 'Callsites'
TOP = 'Aggregate {} (top twenty, descending, {})'
TOP_TIME = TOP.format('Time', 'milliseconds')
TIME = 'Callsite Time statistics (all, milliseconds)'

# Bytes sent, of files and of one-sided calls: the section of the largest twenty, and the one with all ranks.
BYTES = {
    'bytes': (TOP.format('Sent Message Size', 'bytes'), 'Callsite Message Sent statistics (all, sent bytes)'),
    'io_bytes': (TOP.format('I/O Size', 'bytes'), 'Callsite I/O statistics (all, I/O bytes)'),
    'rma_bytes': (TOP.format('RMA Origin Size', 'bytes'), 'Callsite RMA statistics (all, origin bytes)'),
}
_BYTES_OF_RANKS = ('Name Site Rank Count Max Mean Min Sum',)
_HISTOGRAMS = {'Aggregate Collective Time (top twenty, descending)': '',            # of -y and -p: not read
               'Aggregate Point-To-Point Sent (top twenty, descending)': ''}

# Sections in the order in which mpiP writes them, and the headings that each may have.
_HEADINGS = {
    TASKS: ('Task AppTime MPITime MPI%',),
    CALLSITES: ('ID Lev File/Address Line Parent_Funct MPI_Call',),
    TOP_TIME: ('Call Site Time App% MPI% Count', 'Call Site Time App% MPI% Count COV'),
    BYTES['bytes'][0]: ('Call Site Count Total Avrg Sent%',),
    **_HISTOGRAMS,
    BYTES['io_bytes'][0]: ('Call Site Count Total Avrg I/O%',),
    BYTES['rma_bytes'][0]: ('Call Site Count Total Avrg I/O%',),
    TIME: ('Name Site Rank Count Max Mean Min App% MPI%',),
    **{every: _BYTES_OF_RANKS for _, every in BYTES.values()},
}
_LABELS = ('Command', 'Version', 'MPIP Build date', 'Start time', 'Stop time', 'Timer Used', 'MPIP env var',
           'Collector Rank', 'Collector PID', 'Final Output Dir', 'Report generation')
_ASSIGNMENT = 'MPI Task Assignment'
_FIRST = '@ mpiP'
_LAST = re.compile(r'@--- End of Report( -+)?')
_SECTION = re.compile(r'@--- (.+?)(: \d+)?( -+)?', re.ASCII)
_LABEL = re.compile(r'@ (' + '|'.join((*_LABELS, _ASSIGNMENT)) + r') ?: ?(.*)')
_NODE = re.compile(r'(\d+) ([\w.-]+)', re.ASCII)
_THRESHOLD = re.compile(r'Total send/collective operation calls >= \d+ bytes : \d+ of \d+ operations', re.ASCII)


@dataclass(frozen=True)
class Section:
    """Rows below a heading, cut into words, and what its title announces: 'Callsites: 24'."""

    title: str
    line: int
    announced: int | None
    rows: list[list[str]]


@dataclass(frozen=True)
class Report:
    """A report with all that mpiP announces; ``nodes`` has the node of every rank."""

    header: dict[str, str]
    nodes: list[str]
    sections: dict[str, Section]
    lines: int

    def rows(self, title: str, words: tuple[int, ...]) -> list[list[str]]:
        """The rows of a section, each with one of these numbers of words; [] where the section is absent."""
        rows = self.sections[title].rows if title in self.sections else []
        for row in rows:
            if len(row) not in words:
                raise Wrong(f'section "{title}": {" ".join(row)[:120]!r} is no row of it')
        return rows


def read(text: str) -> Report:
    """Raise Incomplete or Wrong unless the text is one whole verbose report."""
    lines = [' '.join(line.split()) for line in text.split('\n')]
    _whole(lines)
    header: dict[str, str] = {}
    nodes: list[str] = []
    sections: dict[str, Section] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip('-') or line == _FIRST or _LAST.fullmatch(line):
            continue
        if found := _SECTION.fullmatch(line):
            _begin(sections, found, number)
        elif sections and not line.startswith('@'):
            next(reversed(sections.values())).rows.append(line.split())
        else:
            _label(header, nodes, line, number)
    _all_there(header, nodes, sections, len(lines))
    return Report(header, nodes, {title: _headed(section) for title, section in sections.items()}, len(lines))


def _whole(lines: list[str]) -> None:
    warned = [line for line in lines if 'mpiP: WARNING' in line]
    if warned:
        raise Wrong(warned[0][:160])
    first = [at for at, line in enumerate(lines, 1) if line == _FIRST]
    last = [at for at, line in enumerate(lines, 1) if _LAST.fullmatch(line)]
    if not last:
        raise Incomplete(f'line {len(lines)}: the report ends without "@--- End of Report"')
    if not first:
        raise Incomplete(f'line 1: "{_FIRST}" is absent: the report lacks its beginning')
    if len(first) > 1 or len(last) > 1:
        raise Wrong(f'{max(len(first), len(last))} reports in one')
    for at, line in enumerate(lines, 1):
        if line.strip('-') and not first[0] <= at <= last[0]:
            raise Wrong(f'line {at}: {line[:80]!r} is outside of the report: give the file *.mpiP alone')


def _begin(sections: dict[str, Section], found: re.Match, number: int) -> None:
    title, announced = found[1], found[2] and whole(found[2][2:], found[1])
    if title == 'Task Time Statistics (seconds)' or '(all callsites,' in title:
        raise Incomplete(f'line {number}: a concise report lacks the figures of each rank; '
                         f'set MPIP="{OPTIONS}", without -c')
    if title not in _HEADINGS or (announced is not None) != (title in (CALLSITES, TIME)):
        raise Wrong(f'line {number}: "{title[:80]}" is no section of a report of mpiP')
    if title in sections:
        raise Wrong(f'line {number}: section "{title}" a second time')
    order = list(_HEADINGS)
    if sections and order.index(title) < order.index(next(reversed(sections))):
        raise Wrong(f'line {number}: section "{title}" stands after "{next(reversed(sections))}"')
    sections[title] = Section(title, number, announced, [])


def _label(header: dict[str, str], nodes: list[str], line: str, number: int) -> None:
    found = _LABEL.fullmatch(line)
    if not found:
        raise Wrong(f'line {number}: {line[:80]!r} is no line of a report of mpiP')
    if found[1] != _ASSIGNMENT:
        if found[1] in header:
            raise Wrong(f'line {number}: "{found[1]}" a second time')
        header[found[1]] = found[2]
        return
    task = _NODE.fullmatch(found[2])
    if not task or whole(task[1], 'task') != len(nodes):
        raise Wrong(f'line {number}: the node of task {len(nodes)} was expected, not {found[2][:80]!r}')
    nodes.append(task[2])


def _all_there(header: dict[str, str], nodes: list[str], sections: dict[str, Section], lines: int) -> None:
    for label in _LABELS:
        if label not in header:
            raise Incomplete(f'line {lines}: the report ends without "@ {label}"')
    if header['Report generation'] != 'Single collector task':
        raise Incomplete(f'line {lines}: a report collected with -l has 0 as the minimum of all ranks; '
                         f'set MPIP="{OPTIONS} -r"')
    if not nodes:
        raise Incomplete(f'line {lines}: the report ends without "@ {_ASSIGNMENT}"')
    if TIME not in sections:
        raise Incomplete(f'line {lines}: the report ends without "{TIME}"; set MPIP="{OPTIONS}", without -d')
    for title in (TASKS, TOP_TIME):
        if title not in sections:
            raise Incomplete(f'line {lines}: the report ends without "{title}"')
    for pair in BYTES.values():
        one = [title for title in pair if title in sections]
        if len(one) == 1:
            raise Incomplete(f'line {lines}: the report has "{one[0]}", but not both of {" and ".join(pair)}')


def _headed(section: Section) -> Section:
    """The section without its heading, and without what -m adds at its end."""
    if section.title in _HISTOGRAMS:
        return section
    if not section.rows or ' '.join(section.rows[0]) not in _HEADINGS[section.title]:
        raise Incomplete(f'line {section.line}: section "{section.title}" lacks its heading')
    rows = [row for row in section.rows[1:] if not _THRESHOLD.fullmatch(' '.join(row))]
    if not rows:
        raise Incomplete(f'line {section.line}: section "{section.title}" has no rows')
    return Section(section.title, section.line, section.announced, rows)
