"""The answer of a verdict: a sentence, figures, an entry for each cause, and a line for each kind of the rest. The
terminal, the mail and the page print it."""

import datetime
import re
import shlex
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple

from parity.base import codes, figures, times
from parity.base.console import Line, styled
from parity.base.figures import counted, several
from parity.base.groups import grouped
from parity.base.reasons import Kind
from parity.base.strict import Strict
from parity.base.text import brief, columns, visible
from parity.judge.compare.pairs import PairState
from parity.judge.report import incidents as words
from parity.judge.stats.bounds import FIRST, WANTED
from parity.judge.store.incidents import Incident, WithVerdict
from parity.judge.verdict import incidents, judge
from parity.judge.verdict.incidents import BAD, FaultGroup
from parity.judge.verdict.model import (
    RESTARTS,
    WORDS,
    Cell,
    CellText,
    Change,
    Coverage,
    Verdict,
    rows,
)
from parity.site.plan import not_offered

#: Characters of a line, figures of an entry, entries, headlines of a subsystem, warnings, known faults.
WIDTH, FIGURES, ENTRIES, HEADLINES, WARNINGS, KNOWN = 100, 3, 6, 3, 3, 3
#: So many figures are a table of their own: fewer are all shown. Incidents that are shown without an entry.
FEW = 10
#: What a ceiling's source says beside its metric.
_SAME = re.compile(r' of the same (?:run|session)|, measured')


class Headline(Strict):
    """A figure of a first screen, beside what the machine could do."""

    subsystem: str
    name: str
    figure: str
    could: str                       # the limit and its source; '' where none is known
    share: float | None              # of the limit


class FaultEntry(WithVerdict):
    """Cells with one cause: a title, their figures, the evidence, what to do."""

    title: str
    cells: list[str]
    figures: list[list[str]]         # name, before, now, change
    lines: list[str]
    next: str
    incident: int = 0                # its number; 0: none yet
    news: str = ''                   # new, back, worse, due; '' without news of this session


class Answer(Strict):
    sentence: str
    head: str
    counts: str                      # '1 regressed · 58 ok · 4 blind' of what was judged; '' where nothing was
    anew: list[str]                  # '12 cells learn anew: arguments changed'
    headlines: list[Headline]        # where no figure is judged yet
    entries: list[FaultEntry]
    notes: list[tuple[str, str]]     # label, text


class Answered(Verdict):
    """A verdict with its answer: what `--json` and verdict.json have."""

    answer: Answer


def answered(verdict: Verdict) -> Answered:
    shown = verdict.model_copy(update={'cells': words.agreeing(verdict)})
    return Answered(**dict(shown), answer=of(shown))


def of(verdict: Verdict) -> Answer:
    """Return the answer of a verdict."""
    table = rows(verdict.cells)
    entries = list(_entries(table, verdict))
    entries.sort(key=lambda entry: WORDS.index(entry.word))
    headlines: list[Headline] = []
    if not any(cell.is_judged for cell in verdict.cells):
        headlines = list(_headlines(table, not entries))
    notes = [note for note in _notes(verdict, table, entries) if note[1]]
    return Answer(
        sentence=_sentence(verdict, table, entries),
        head=_head(verdict, table),
        counts=_counts(table),
        anew=list(_anew(verdict)),
        headlines=headlines,
        entries=entries,
        notes=notes)


# ---- entries

def _entries(table: list[CellText], verdict: Verdict) -> Iterator[FaultEntry]:
    """Yield an entry for each cause, for each slow node of no slower cell, and for each pair that is not as
    expected."""
    by_number = {incident.number: incident for incident in verdict.incidents}
    causes = incidents.causes(row for row in table if row.word in BAD and not row.cell.acknowledged)
    causes.sort(key=lambda cause: -len(cause.rows))
    nights = _nights_of(causes, verdict)
    shown = set()
    for cause in causes:
        shown |= {row.cell.incident for row in cause.rows}
        incident = by_number.get(cause.rows[0].cell.incident)
        entry = _entry(cause, incident, nights)
        yield _linked(incident, entry, verdict)
    for incident in incidents.of_nodes(by_number.values(), verdict.session.uuid):
        if incident.number not in shown:
            entry = _without_cells(incident.title, f'where: {incident.where}', 'parity show')
            yield _linked(incident, entry, verdict)
    by_pair: dict[str, Incident] = {}
    for incident in verdict.incidents:
        for name in incident.faults:
            by_pair.setdefault(name, incident)
    for pair in verdict.pairs:
        if pair.state == 'regressed' and not pair.acknowledged:
            incident = by_pair.get(incidents.of_pair(pair))
            yield _linked(incident, _of_pair(pair), verdict)


def _of_pair(pair: PairState) -> FaultEntry:
    sides = f'{pair.candidate} / {pair.baseline}'
    figure = f'{pair.benchmark} {pair.metric}{pair.suffix}'
    line = f'expected {pair.expected}: {pair.why}'
    command = f'parity compare {pair.baseline} {pair.candidate}'
    return _without_cells(f'{sides}: {figure}', line, command)


def _without_cells(title: str, line: str, command: str) -> FaultEntry:
    return FaultEntry(verdict='regressed', title=title, cells=[], figures=[], lines=[line], next=command)


def _linked(incident: Incident | None, entry: FaultEntry, verdict: Verdict) -> FaultEntry:
    """Return the entry, with its incident where it has one."""
    if incident is None:
        return entry
    news = incidents.turn(incident, verdict.session.uuid)
    lines = list(entry.lines)
    if incident.cause:
        lines.append(f'cause: {incident.cause.text}')
    # how a person ends an incident that no measurement ends
    if entry.word == 'failed':
        lines.append(f'known fault: parity ack {incident.number} --until DATE --why TEXT')
    elif entry.word == 'missing' and entry.cells:
        lines.append('never here: waivers: (a code) or retired: (a case) in '
                     f'systems/{incident.system}/system.yaml')
    command = entry.next
    if command.startswith('parity show'):
        command = f'parity show {incident.number}'
    title = f'{incident.title} (incident {incident.number}, {news or incident.since_text})'
    update = {'incident': incident.number, 'news': news, 'lines': lines, 'title': title, 'next': command}
    return entry.model_copy(update=update)


def _shown(group: list[CellText]) -> list[CellText]:
    measured = [row for row in group if row.cell.value is not None]
    return measured[:FIGURES]


class _Nights(NamedTuple):
    """A cell's last nights as blocks, and its runs of this one."""

    blocks: str = ''
    runs: str = ''


def _entry(cause: FaultGroup, incident: Incident | None, nights: dict[int, _Nights]) -> FaultEntry:
    """``nights``: by the cell's id. Place and part are the incident's, as its title is."""
    group = cause.rows
    worst = group[0]
    listed = []
    runs = []
    for row in _shown(group):
        nights_of_row = nights.get(id(row.cell), _Nights())
        listed.append(_figure(row, nights_of_row.blocks))
        runs.append(nights_of_row.runs)
    lines = [*runs[:1], worst.reason, *_other_reasons(group)]
    if worst.cell.cause:
        whole = words.as_whole(worst.cell.cause, incident or cause)
        lines += whole.lines(3)
    command = ''
    if worst.word != 'missing':
        command = f'parity show {shlex.quote(worst.name)}'
    names = [row.name for row in group]
    filled = [line for line in lines if line]
    return FaultEntry(verdict=worst.word, title=cause.title, cells=names, figures=listed, lines=filled,
                      next=command)


def _other_reasons(group: list[CellText]) -> list[str]:
    """Return a reason of each kind of failure but the first one's, with its cell: a node that dies fails cases in
    several ways."""
    first: dict[Kind, CellText] = {}
    for row in group:
        if row.word in ('failed', 'missing'):
            first.setdefault(row.cell.kind, row)
    reasons = []
    for row in first.values():
        if row.reason and row.reason != group[0].reason:
            reasons.append(f'{row.name}: {row.reason}')
    return reasons


def _nights_of(causes: list[FaultGroup], verdict: Verdict) -> dict[int, _Nights]:
    """Return the nights of the cells that an entry on a slowdown lists, by the cell's id."""
    cells = []
    for cause in causes:
        worst = cause.rows[0]
        if worst.word == 'regressed':
            cells += [row.cell for row in _shown(cause.rows)]
    if not cells:
        return {}
    from parity.judge.report import show  # it loads polars, which a verdict without a slow cell does not need
    session = verdict.session.uuid
    nights_of = {}
    for cell, nights in zip(cells, show.stored_nights(cells, session), strict=True):
        blocks = ''
        if len(nights) > 1:
            values = [night.value for night in nights]
            blocks = show.sparkline(values)
        runs = show.runs(cell, nights, session)
        nights_of[id(cell)] = _Nights(blocks, runs)
    return nights_of


def _figure(row: CellText, nights: str) -> list[str]:
    """Return name, before -> now, change, and the last nights."""
    cell = row.cell
    (before, now), unit = figures.alike(cell.unit, cell.expected, cell.value)
    figure = f'{now} {unit}'
    if cell.expected is not None:
        figure = f'{before} -> {figure}'
    change = figures.change(cell.value, cell.expected)
    return [row.title, figure, change, nights]


# ---- the first figures

def _headlines(table: list[CellText], alone: bool) -> Iterator[Headline]:
    """Yield the figures that the codes name for a first screen, a few of each subsystem; all of less than FEW
    where they stand ``alone``, without a cause."""
    measured = [row for row in table if row.cell.value is not None and not row.cell.label]
    places = {row.cell.partition for row in measured}
    few = alone and len(measured) < FEW
    most = FEW if few else HEADLINES * len(places)
    headlines: dict[str, dict[str, Headline]] = {}
    for row, name in _named(measured, few):
        if len(places) > 1:
            name = f'{name}, {row.cell.partition}'
        of_subsystem = headlines.setdefault(row.cell.subsystem, {})
        if name not in of_subsystem:
            of_subsystem[name] = _headline(row, name)
    for subsystem in sorted(headlines):
        in_order = list(headlines[subsystem].values())
        yield from in_order[:most]


def _named(measured: list[CellText], few: bool) -> list[tuple[CellText, str]]:
    """Return the rows that the codes name for a first screen, in their order, with that name; of ``few`` the
    others follow with their titles."""
    patterns = [headline for code in codes.every() for headline in code.headlines.items()]
    any_pattern = re.compile('|'.join(f'(?:{pattern})' for pattern, _ in patterns))
    likely = []
    for row in measured:
        key, _, _ = row.name.partition('@')
        if any_pattern.match(key):
            likely.append((row, key))
    named = []
    for pattern, name in patterns:
        named += [(row, name) for row, key in likely if re.match(pattern, key)]
    if few:
        with_name = {id(row) for row, _ in named}
        named += [(row, row.title) for row in measured if id(row) not in with_name]
    return named


def _headline(row: CellText, name: str) -> Headline:
    cell = row.cell
    could = ''
    if cell.limit:
        limit = figures.figure(cell.limit, cell.unit)
        source = _SAME.sub('', cell.limit_source)
        could = f'{limit}: {source}'
    return Headline(subsystem=cell.subsystem, name=name, figure=row.figure, share=cell.efficiency, could=could)


# ---- sentences

def _sentence(verdict: Verdict, table: list[CellText], entries: list[FaultEntry]) -> str:
    if entries:
        return f'{entries[0].title}. {_beyond(verdict, table, entries)}'.strip()
    over = _over(verdict)
    if over and not verdict.exit_code:
        ends = [f'Incident {incident.number} is over{_why(incident)}: {incident.title}.' for incident in over[:3]]
        return ' '.join(ends)
    measured = [row.cell for row in table if row.cell.is_figure]
    if verdict.exit_code and measured and verdict.warnings:
        warning = verdict.warnings[0]
        return f'{warning[0].upper()}{warning[1:]}.'
    if not measured:
        return _nothing_measured(table)
    figures = counted(len(measured), 'figure')
    if all(cell.label == 'test bed' for cell in measured):
        return f'The test bed works: {figures}, none wrong. No figure is a measurement.'
    often = judge.too_often(verdict.cells)
    if often:
        return _too_often(often, len(measured))
    lacking = _lacking(verdict.coverage)
    judged = [row for row in table if row.cell.is_judged]
    if not judged:
        return _none_judged(verdict, table, figures, lacking)
    share = f'{len(judged)} of {counted(len(measured), "figure", "are")} judged'
    answer = f'{share}: {_judged_kinds(judged)}.'
    return f'{answer} {lacking}.' if lacking else answer


def _beyond(verdict: Verdict, table: list[CellText], entries: list[FaultEntry]) -> str:
    """Return the sentence on what else there is beside the first entry."""
    if len(entries) > 1:
        return f'{len(entries) - 1} more below.'
    for line in _anew(verdict):
        return f'{line}.'
    judged = [row for row in table if row.cell.is_judged]
    if not judged:
        return ''
    low = sum(bool(row.cell.once) for row in judged)
    if low:
        return f'{counted(low, "more figure", "are")} slower tonight.'
    if _count_blind(judged):
        return 'All else that shows is as it was.'
    return 'All else is as it was.'


def _judged_kinds(judged: list[CellText]) -> str:
    """Return how many of the judged figures are not as they were, by kind, and that the others are."""
    known = improved = slower_tonight = slightly_slower = 0
    for row in judged:
        cell = row.cell
        known += bool(cell.acknowledged)
        improved += cell.verdict == 'improved'
        slower_tonight += bool(cell.once)
        slightly_slower += bool(cell.slight)
    blind = _count_blind(judged)
    counts = {'known': known, 'improved': improved, 'slower tonight': slower_tonight,
              'slightly slower': slightly_slower, 'blind': blind}
    kinds = [f'{count} {kind}' for kind, count in counts.items() if count]
    if not kinds:
        return 'all are as they were'
    if sum(counts.values()) < len(judged):
        kinds.append('the others are as they were')
    return ', '.join(kinds)


def _count_blind(judged: list[CellText]) -> int:
    blind = [row.cell for row in judged if row.word == 'blind']
    return sum(not cell.once and not cell.slight for cell in blind)


def _over(verdict: Verdict) -> list[Incident]:
    """Return the incidents that this session ended."""
    session = verdict.session.uuid
    return [incident for incident in verdict.incidents if incidents.turn(incident, session) == 'over']


def _none_judged(verdict: Verdict, table: list[CellText], figures: str, lacking: str) -> str:
    """Return the sentence of a night of which no figure is judged yet."""
    result = 'none wrong'
    if any(row.cell.limit_certain for row in table):
        result += ', none beyond a physical bound'
    others = ''
    disturbed = sum(row.word == 'disturbed' for row in table)
    if disturbed:
        others = f' {counted(disturbed, "figure", "were")} disturbed.'
    if lacking:
        return f"{lacking}: {figures} of parity's own checks, {result}.{others}"
    coverage = verdict.coverage
    if coverage.lacking:
        result += f'; {coverage.measured} of the {coverage.total} codes measured'
    return f'This machine is measured: {figures}, {result}.{others}'


def _too_often(cells: list[Cell], measured: int) -> str:
    """Return which cells nobody knows the speed of, after nights that left them out or disturbed them."""
    nights = f'{judge.TOO_OFTEN} nights in a row'
    skipped = [cell for cell in cells if cell.verdict == 'skipped']
    if not skipped:
        total = counted(measured, 'figure', 'were')
        return f'{len(cells)} of {total} disturbed {nights}: {cells[0].reason}.'
    count = counted(len(skipped), 'cell', 'were')
    example = CellText(skipped[0])
    return f'{count} left out {nights}, and measured before: {example.title} ({example.reason}).'


def _lacking(coverage: Coverage) -> str:
    """Return that none of the selected codes has its program here; '' where one has it, or none was selected."""
    total = coverage.total
    if not total or len(coverage.lacking) < total:
        return ''
    if total == 1:
        return f'The selected code, {coverage.lacking[0]}, has no program here'
    which = 'codes' if total == len(coverage.codes) else 'selected codes'
    return f'None of the {total} {which} has its program here'


def _nothing_measured(table: list[CellText]) -> str:
    """Return the sentence where no cell counts as a figure, with the most frequent reason."""
    left_out = [row for row in table if row.cell.value is not None]
    what = 'All that was measured is left out' if left_out else 'Nothing was measured'
    counts = Counter(row.reason for row in (left_out or table))
    reasons = [reason for reason, _ in counts.most_common() if reason]
    if not reasons:
        return f'{what}: no case was planned.'
    why = _all_not_offered(reasons) or reasons[0]
    return f'{what}: {why}.'


def _all_not_offered(reasons: list[str]) -> str:
    """Return one sentence with every feature that no environment offers; '' where the first reason is another."""
    begin = not_offered(())
    if not reasons[0].startswith(begin):
        return ''
    alike = [reason for reason in reasons if reason.startswith(begin)]
    features = [reason.removeprefix(begin) for reason in alike]
    return begin + ', '.join(features)


def _why(over: Incident) -> str:
    if over.closed and over.closed.text:
        return f' ({over.closed.text})'
    return ''


def _head(verdict: Verdict, table: list[CellText]) -> str:
    session = verdict.session
    nodes_of_rows = [row.cell.ran_on or row.cell.nodes for row in table]
    nodes = set(chain(*nodes_of_rows))
    facts: dict[str, Any] = session.facts.get('machine') or {}
    one_machine = nodes <= {facts.get('hostname')}
    where = _machine(facts) if one_machine else counted(len(nodes), 'node')
    begin = datetime.datetime.fromisoformat(session.start)
    end = datetime.datetime.fromisoformat(session.end)
    parts = [session.system, where, f'{begin:%Y-%m-%d %H:%M} to {end:%H:%M}', f'session {session.uuid[:8]}']
    if session.interrupted:
        parts.append('interrupted')
    return ' · '.join(filter(None, parts))


def _machine(facts: dict[str, Any]) -> str:
    parts = []
    cores = len(facts.get('core_sets') or ())
    if cores:
        parts.append(counted(cores, 'core'))
    parts.append(facts.get('model_name'))
    memory = facts.get('memory_bytes')
    if memory:
        parts.append(figures.figure(memory, 'B'))
    if facts.get('kind') == 'virtual':
        parts.append(f'{facts["backend"]} guest')
    return ', '.join(filter(None, parts))


def _counts(table: list[CellText]) -> str:
    counts = Counter('known' if row.cell.acknowledged else row.word for row in table if row.cell.is_judged)
    return ' · '.join(f'{counts[word]} {word}' for word in (*BAD, 'known', 'improved', 'ok', 'blind')
                      if counts[word])


def _anew(verdict: Verdict) -> Iterator[str]:
    """Yield how many cells learn anew, and why; those that do for most reasons in one line. Then how many learned
    it, and have an accepted value of the work before."""
    yield from _never_judged(verdict)
    today = verdict.session.start[:10]
    reasons: Counter[str] = Counter()
    former = 0
    for cell in verdict.cells:
        if not cell.anew:
            continue
        if cell.state != 'learning':
            former += 1
        elif cell.restarts < RESTARTS:
            reasons[_changed(cell.anew, today)] += 1
    rest = reasons.total()
    for why, count in reasons.most_common(WARNINGS):
        yield f'{counted(count, "cell")} {_learn(count)} anew: {why}'
        rest -= count
    if rest:
        yield f'{counted(rest, "more cell")} {_learn(rest)} anew: parity verdict --json'
    if former:
        yield f'{counted(former, "accepted value")} of former work: parity refs propose'


def _learn(count: int) -> str:
    return 'learns' if count == 1 else 'learn'


def _changed(changes: list[Change], today: str) -> str:
    """Return which facts of a cell's work changed, and when it was not today."""
    facts = [change.fact for change in changes if change.fact != 'check']
    text = f'{several(facts or ["check"])} changed'
    day = changes[0].when[:10]
    if day != today:
        text += f' on {day}'
    return text


def _never_judged(verdict: Verdict) -> Iterator[str]:
    """Yield how many cells can never be judged, as their work changes before they learned it, and an example."""
    restarted: dict[str, list[Cell]] = {}
    for cell in verdict.cells:
        if cell.restarts >= RESTARTS:
            facts = several([change.fact for change in cell.anew])
            restarted.setdefault(facts, []).append(cell)
    largest_first = sorted(restarted, key=lambda facts: -len(restarted[facts]))
    for facts in largest_first[:WARNINGS]:
        cells = restarted[facts]
        count = counted(len(cells), 'cell')
        restarts = max(cell.restarts for cell in cells)
        last = cells[0].anew[0]
        yield (f'{count} can never be judged: {facts} changed {restarts} times, never after {FIRST + 1} nights '
               f'alike; the last time {last.old} -> {last.new}')


def _notes(verdict: Verdict, table: list[CellText], entries: list[FaultEntry]) -> Iterator[tuple[str, str]]:
    """Yield a label and a sentence for each kind of the rest; '' where there is none."""
    yield from _warnings(verdict)
    yield from _incidents(verdict, table, entries)
    yield from _cells(table)
    yield 'pairs', _pairs(verdict.pairs)
    yield 'covers', verdict.coverage.line
    yield 'trust', verdict.trust
    if not any(entry.next for entry in entries):     # an entry ends with its own
        yield 'next', verdict.next


def _pairs(pairs: Sequence[PairState]) -> str:
    """Return '1 insufficient · 2 ok'."""
    counts: Counter[str] = Counter()
    for pair in pairs:
        state = f'{pair.state}, acknowledged' if pair.acknowledged else pair.state
        counts[state] += 1
    texts = [f'{counts[state]} {state}' for state in sorted(counts)]
    return ' · '.join(texts)


def _warnings(verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield from _first('careful', verdict.warnings, WARNINGS, 'warning', 'parity verdict --all')
    facts = verdict.session.facts
    load = (facts.get('before') or {}).get('load_1min')
    machine = facts.get('machine') or {}
    cores = len(machine.get('core_sets', ()))
    if load and cores and load >= cores:        # the set-up before the run has a load of its own
        yield 'careful', f'the load was {load:.1f} before: figures may be low; run it again on an idle machine'
    disturbed = verdict.counts.get('disturbed')
    if disturbed:
        yield 'disturbed', (f'{counted(disturbed, "figure")}, while others used the CPUs or the clock was wrong: '
                            'shown, not judged')


def _incidents(verdict: Verdict, table: list[CellText], entries: list[FaultEntry]) -> Iterator[tuple[str, str]]:
    """Yield the lines on what is acknowledged, over, or open without a cell tonight."""
    numbers = set()
    without = []
    for row in table:
        cell = row.cell
        if cell.acknowledged and cell.incident:
            numbers.add(cell.incident)
        elif cell.acknowledged:
            without.append(f'{row.name}: acknowledged {cell.acknowledged}')
    nodes = incidents.of_nodes(verdict.incidents, verdict.session.uuid, acknowledged=True)
    numbers |= {incident.number for incident in nodes}
    numbers |= {pair.incident for pair in verdict.pairs if pair.acknowledged}
    yield 'known', words.numbers(sorted(numbers), 'known')
    yield from _first('known', without, KNOWN, 'known fault', 'parity ack --list')
    over = [f'incident {incident.number}{_why(incident)}: {incident.title}' for incident in _over(verdict)]
    yield from _first('over', over, FEW, 'incident', 'parity verdict --json')
    here = numbers | {entry.incident for entry in entries}
    left: dict[str, list[str]] = {}
    for incident in verdict.incidents:
        if not incident.closed and incident.number not in here:
            text = f'incident {incident.number}: {incident.title}: {words.waits(incident)}'
            left.setdefault(incident.state, []).append(text)
    for state, texts in left.items():
        yield from _first(state, texts, FEW, 'incident', 'parity verdict --json')


def _first(label: str, texts: Sequence[str], most: int, noun: str, command: str) -> Iterator[tuple[str, str]]:
    """Yield the first texts, and how many more the command prints."""
    for text in texts[:most]:
        yield label, text
    rest = len(texts) - most
    if rest > 0:
        yield label, f'{counted(rest, f"more {noun}")}: {command}'


def _cells(table: list[CellText]) -> Iterator[tuple[str, str]]:
    """Yield the lines on cells that nobody need act on."""
    cells = [row.cell for row in table]
    low = [row for row in table if row.cell.once]
    low.sort(key=lambda row: -row.cell.once)
    texts = [_once(row) for row in low]
    yield from _first('once', texts, FEW, 'figure', 'parity verdict --all')
    yield 'slightly', slight(cells)
    improved = [row.title for row in table if row.word == 'improved']
    yield 'improved', several(improved)
    by_word = grouped(cells, attrgetter('verdict'))
    if 'ok' in by_word:
        text = counted(len(by_word['ok']), 'figure')
        new = len(by_word.get('unreferenced', ())) + len(by_word.get('insufficient', ()))
        yield 'in order', f'{text}; {new} too new to judge' if new else text
    if 'blind' in by_word:
        yield 'blind', _blind(by_word['blind'])
    if 'skipped' in by_word:
        yield 'left out', _skipped(by_word['skipped'])


def _blind(cells: list[Cell]) -> str:
    count = counted(len(cells), 'figure')
    text = f'{count} would not show a slowdown of {figures.percent(WANTED)}'
    shown = [cell.visible for cell in cells if cell.visible]
    if shown:
        best = figures.percent(min(shown))
        text += f'; the best shows one of {best}'
    return f'{text} (parity verdict --all)'


def _skipped(cells: list[Cell]) -> str:
    text = counted(len(cells), 'cell')
    counts = Counter(_KINDS.get(cell.kind, 'for other reasons') for cell in cells)
    kinds = [f'{count} {kind}' for kind, count in counts.most_common()]
    return f'{text}: {", ".join(kinds)} (parity verdict --skipped)'


def _once(row: CellText) -> str:
    """Return 'Stream.triad@daint:gpu: tonight 12 % low on c3 (not slow on c4): a slowdown if it lasts'."""
    cell = row.cell
    share = figures.percent(cell.once)
    side = 'low' if cell.better == 'higher' else 'high'
    text = f'tonight {share} {side}'
    if cell.cause and cell.cause.where.kind == 'node':
        where = cell.cause.where
        text += f' on {where.name} ({where.why})'
    return f'{row.name}: {text}: a slowdown if it lasts'


def slight(cells: Sequence[Cell]) -> str:
    """Return '12 figures 2.1 to 3.8 % slower since 2026-11-20', of slowdowns too small to alarm; '' for none."""
    slower = [cell for cell in cells if cell.slight]
    if not slower:
        return ''
    count = counted(len(slower), 'figure')
    shares = [cell.slight for cell in slower]
    least = figures.percent(min(shares))
    most = figures.percent(max(shares))
    span = least
    if most != least:
        span = f'{least.removesuffix(" %")} to {most}'
    begin = min(cell.begin for cell in slower)
    return f'{count} {span} slower since {times.day(begin)}: too little to alarm (alarms: least)'


#: The kinds of reasons to skip, in few words.
_KINDS = {Kind.NO_PROGRAM: 'without a program', Kind.CACHED: 'cached', Kind.SIZE: 'of a larger size',
          Kind.SAME: 'the same as others', Kind.RANKS: 'of several ranks', Kind.NODES: 'on more nodes',
          Kind.IO_BUDGET: 'beyond io_budget', Kind.WAIVED: 'waived'}


# ---- lines of text

BLOCKS = ' ▏▎▍▌▋▊▉█'


def lines(verdict: Verdict, exits: bool = True, most: int | None = None) -> list[tuple[str, str]]:
    """Return (text, style) for each line of the answer. ``exits``: parity's program ends with its exit code.
    ``most``: lines. The entries with news come first then, and those that do not fit are counted."""
    answer = of(verdict)
    top = list(_top(answer, verdict, exits))
    notes = ['', *noted(answer.notes)]
    entries = answer.entries
    room = inf
    if most is not None:
        entries = sorted(entries, key=lambda entry: not entry.news)
        room = most - len(top) - len(notes) - 1
    shown = [list(_entered(entry)) for entry in entries]
    ends = accumulate(map(len, shown))
    fitting = sum(end <= room for end in ends)
    some = min(ENTRIES, max(1, fitting))
    whole = top + list(chain(*shown[:some]))
    rest = len(entries) - some
    if rest > 0:
        whole.append(f'and {counted(rest, "more cause")}: parity verdict --all')
    whole += notes
    if most is not None and len(whole) > most:
        rest = len(whole) - most + 1
        whole[most - 1:] = [f'and {counted(rest, "more line")}: parity verdict']
    # nothing a job printed commands the terminal
    return [(visible(text), style) for text, style in map(styled, whole)]


#: No line ends at such a space.
_FIRM = '\xa0'


def _top(answer: Answer, verdict: Verdict, exits: bool) -> Iterator[Line]:
    """Yield the sentence, the head, the counts and the headlines."""
    code = verdict.exit_code
    sentence = answer.sentence
    if code and exits:
        sentence += f'  (exit{_FIRM}code{_FIRM}{code})'
    style = 'bold red' if code else 'bold green'
    for text in _wrapped(sentence):
        yield text.replace(_FIRM, ' '), style
    head = answer.head
    age = verdict.session.age
    if age >= 0:
        head = head.replace(' · session ', f' ({figures.duration(age)} old) · session ')
    firm = head.replace(' ', _FIRM)
    parts = firm.replace(f'{_FIRM}·{_FIRM}', f' ·{_FIRM}')       # a line ends between parts only
    for text in _wrapped(parts):
        yield text.replace(_FIRM, ' ')
    yield from filter(None, (answer.counts, *answer.anew))
    if answer.headlines:
        yield ''
        table = _headline_table(answer.headlines)
        for line in columns(table, right=(2,)):
            yield line[2:]


def _headline_table(headlines: list[Headline]) -> list[list[str]]:
    width = 5 if any(headline.could for headline in headlines) else 3
    table = [['', '', 'this machine', 'could do', 'share']]
    before = ''
    for headline in headlines:
        subsystem = '' if headline.subsystem == before else headline.subsystem
        before = headline.subsystem
        could = brief(headline.could, 35)
        share = ''
        if headline.share is not None:
            percent = figures.percent(headline.share)
            share = f'{percent:>5} {bar(headline.share)}'
        table.append([subsystem, headline.name, headline.figure, could, share])
    return [row[:width] for row in table]


def _entered(entry: FaultEntry) -> Iterator[Line]:
    yield ''
    yield entry.title, 'bold'
    yield from columns(entry.figures)
    rest = len(entry.cells) - len(entry.figures)
    if rest > 0 and entry.figures:
        yield f'  and {counted(rest, "more cell")}'
    for line in (*entry.lines, entry.next):
        if line:
            yield from _wrapped(line, '  ')


def noted(notes: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of (label, text), the texts below one another."""
    width = 2 + max(len(label) for label, _ in notes)
    for label, text in notes:
        yield from _wrapped(text, label.ljust(width), ' ' * width)


def _wrapped(text: str, first: str = '', other: str | None = None) -> list[str]:
    following = first if other is None else other
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=following,
                         break_long_words=False, break_on_hyphens=False)


def bar(share: float) -> str:
    """Return a bar of ``share`` of 12 characters, in eighths of one."""
    within = min(max(share, 0.0), 1.0)
    eighths = round(8 * 12 * within)
    full, rest = divmod(eighths, 8)
    blocks = BLOCKS[-1] * full + BLOCKS[rest]
    return blocks.strip()
