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
from parity.judge.store.incidents import Incident, Where, WithVerdict
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
    judged = any(cell.is_judged for cell in verdict.cells)
    entries = sorted(_entries(table, verdict), key=lambda entry: WORDS.index(entry.word))
    headlines = [] if judged else list(_headlines(table, not entries))
    notes = [(label, text) for label, text in _notes(verdict, table, entries) if text]
    return Answer(sentence=_sentence(verdict, table, entries), head=_head(verdict, table), entries=entries,
                  counts=_counts(table), anew=list(_anew(verdict)), headlines=headlines, notes=notes)


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
        yield _linked(incident, _entry(cause, incident, nights), verdict)
    for incident in incidents.of_nodes(by_number.values(), verdict.session.uuid):
        if incident.number not in shown:
            entry = FaultEntry(verdict='regressed', title=incident.title, cells=[], figures=[],
                               lines=[f'where: {incident.where}'], next='parity show')
            yield _linked(incident, entry, verdict)
    by_pair = {}
    for incident in verdict.incidents:
        for name in incident.faults:
            by_pair.setdefault(name, incident)
    for pair in verdict.pairs:
        if pair.state == 'regressed' and not pair.acknowledged:
            yield _linked(by_pair.get(incidents.of_pair(pair)), _of_pair(pair), verdict)


def _of_pair(pair: PairState) -> FaultEntry:
    return FaultEntry(
        verdict='regressed', cells=[], figures=[], lines=[f'expected {pair.expected}: {pair.why}'],
        title=f'{pair.candidate} / {pair.baseline}: {pair.benchmark} {pair.metric}{pair.suffix}',
        next=f'parity compare {pair.baseline} {pair.candidate}')


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
    title = f'{incident.title} (incident {incident.number}, {news or incident.since_text})'
    shown = entry.next.startswith('parity show')
    command = f'parity show {incident.number}' if shown else entry.next
    return entry.model_copy(update={
        'incident': incident.number, 'news': news, 'lines': lines, 'title': title, 'next': command})


def _shown(group: list[CellText]) -> list[CellText]:
    return [row for row in group if row.cell.value is not None][:FIGURES]


class _Nights(NamedTuple):
    """A cell's last nights as blocks, and its runs of this one."""

    blocks: str = ''
    runs: str = ''


def _entry(cause: FaultGroup, incident: Incident | None, nights: dict[int, _Nights]) -> FaultEntry:
    """``nights``: by the cell's id. Place and part are the incident's, as its title is."""
    group = cause.rows
    worst, shown = group[0], _shown(group)
    nights_of = [nights.get(id(row.cell), _Nights()) for row in shown]
    lines = [nights_of[0].runs] if shown else []
    lines += [worst.reason, *_other_reasons(group)]
    if worst.cell.cause:
        lines += words.as_whole(worst.cell.cause, incident or cause).lines(3)
    listed = [_figure(row, own.blocks) for row, own in zip(shown, nights_of, strict=True)]
    command = '' if worst.word == 'missing' else f'parity show {shlex.quote(worst.name)}'
    return FaultEntry(verdict=worst.word, title=cause.title, cells=[row.name for row in group], figures=listed,
                      lines=[line for line in lines if line], next=command)


def _other_reasons(group: list[CellText]) -> list[str]:
    """Return a reason of each kind of failure but the first one's, with its cell: a node that dies fails cases in
    several ways."""
    first: dict[Kind, CellText] = {}
    for row in group:
        if row.word in ('failed', 'missing'):
            first.setdefault(row.cell.kind, row)
    told = ('', group[0].reason)
    return [f'{row.name}: {row.reason}' for row in first.values() if row.reason not in told]


def _nights_of(causes: list[FaultGroup], verdict: Verdict) -> dict[int, _Nights]:
    """Return the nights of the slower cells that are shown, by the cell's id."""
    cells = []
    for cause in causes:
        if cause.rows[0].word == 'regressed':
            cells += [row.cell for row in _shown(cause.rows)]
    if not cells:
        return {}
    from parity.judge.report import show  # it loads polars, which a verdict without a slow cell does not need
    session = verdict.session.uuid
    nights_of = {}
    for cell, nights in zip(cells, show.stored_nights(cells, session), strict=True):
        blocks = show.sparkline([night.value for night in nights]) if len(nights) > 1 else ''
        nights_of[id(cell)] = _Nights(blocks, show.runs(cell, nights, session))
    return nights_of


def _figure(row: CellText, nights: str) -> list[str]:
    """Return name, before -> now, change, and the last nights."""
    cell = row.cell
    (before, now), unit = figures.alike(cell.unit, cell.expected, cell.value)
    figure = f'{now} {unit}' if cell.expected is None else f'{before} -> {now} {unit}'
    return [row.title, figure, figures.change(cell.value, cell.expected), nights]


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
        of_subsystem.setdefault(name, _headline(row, name))
    for subsystem in sorted(headlines):
        yield from list(headlines[subsystem].values())[:most]


def _named(measured: list[CellText], few: bool) -> list[tuple[CellText, str]]:
    """Return the rows that the codes name for a first screen, in their order, with that name; of ``few`` the
    others follow with their titles."""
    patterns = [each for code in codes.every() for each in code.headlines.items()]
    fits = re.compile('|'.join(f'(?:{pattern})' for pattern, _ in patterns)).match
    likely = [(row, row.name.partition('@')[0]) for row in measured]
    likely = [(row, key) for row, key in likely if fits(key)]
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
        could = f'{figures.figure(cell.limit, cell.unit)}: {_SAME.sub("", cell.limit_source)}'
    return Headline(subsystem=cell.subsystem, name=name, figure=row.figure, share=cell.efficiency, could=could)


# ---- sentences

def _sentence(verdict: Verdict, table: list[CellText], entries: list[FaultEntry]) -> str:
    if entries:
        return f'{entries[0].title}. {_beyond(verdict, table, entries)}'.strip()
    over = _over(verdict)
    if over and not verdict.exit_code:
        return ' '.join(f'Incident {one.number} is over{_why(one)}: {one.title}.' for one in over[:3])
    measured = sum(row.cell.is_figure for row in table)
    if verdict.exit_code and measured and verdict.warnings:
        warning = verdict.warnings[0]
        return f'{warning[0].upper()}{warning[1:]}.'
    if not measured:
        return _nothing_measured(table)
    figures = counted(measured, 'figure')
    if all(row.cell.label == 'test bed' for row in table if row.cell.is_figure):
        return f'The test bed works: {figures}, none wrong. No figure is a measurement.'
    often = judge.too_often(verdict.cells)
    if often:
        return _too_often(often, measured)
    lacking = _lacking(verdict.coverage)
    judged = [row for row in table if row.cell.is_judged]
    if not judged:
        return _none_judged(verdict, table, figures, lacking)
    answer = f'{len(judged)} of {counted(measured, "figure", "are")} judged: {_judged_kinds(judged)}.'
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
    return 'All else that shows is as it was.' if _count_blind(judged) else 'All else is as it was.'


def _judged_kinds(judged: list[CellText]) -> str:
    """Return how many of the judged figures are not as they were, by kind, and that the others are."""
    cells = [row.cell for row in judged]
    counts = {
        'known': sum(bool(cell.acknowledged) for cell in cells),
        'improved': sum(cell.verdict == 'improved' for cell in cells),
        'slower tonight': sum(bool(cell.once) for cell in cells),
        'slightly slower': sum(bool(cell.slight) for cell in cells),
        'blind': _count_blind(judged)}
    kinds = [f'{count} {kind}' for kind, count in counts.items() if count]
    if sum(counts.values()) < len(judged):
        kinds.append('the others are as they were' if kinds else 'all are as they were')
    return ', '.join(kinds)


def _count_blind(judged: list[CellText]) -> int:
    return sum(row.word == 'blind' and not (row.cell.once or row.cell.slight) for row in judged)


def _over(verdict: Verdict) -> list[Incident]:
    """Return the incidents that this session ended."""
    session = verdict.session.uuid
    return [incident for incident in verdict.incidents if incidents.turn(incident, session) == 'over']


def _none_judged(verdict: Verdict, table: list[CellText], figures: str, lacking: str) -> str:
    """Return the sentence of a night of which no figure is judged yet."""
    coverage = verdict.coverage
    bounds = ', none beyond a physical bound' if any(row.cell.limit_certain for row in table) else ''
    disturbed = sum(row.word == 'disturbed' for row in table)
    others = f' {counted(disturbed, "figure", "were")} disturbed.' if disturbed else ''
    if lacking:
        return f"{lacking}: {figures} of parity's own checks, none wrong{bounds}.{others}"
    some = f'; {coverage.measured} of the {coverage.total} codes measured' if coverage.lacking else ''
    return f'This machine is measured: {figures}, none wrong{bounds}{some}.{others}'


def _too_often(cells: list[Cell], measured: int) -> str:
    """Return which cells nobody knows the speed of, after nights that left them out or disturbed them."""
    skipped = [cell for cell in cells if cell.verdict == 'skipped']
    if not skipped:
        return (f'{len(cells)} of {counted(measured, "figure", "were")} disturbed {judge.TOO_OFTEN} nights in a '
                f'row: {cells[0].reason}.')
    return (f'{counted(len(skipped), "cell", "were")} left out {judge.TOO_OFTEN} nights in a row, and measured '
            f'before: {rows(skipped)[0].title} ({skipped[0].reason}).')


def _lacking(coverage: Coverage) -> str:
    """Return that none of the selected codes has its program here; '' where one has it, or none was selected."""
    if not coverage.total or len(coverage.lacking) < coverage.total:
        return ''
    if coverage.total == 1:
        return f'The selected code, {coverage.lacking[0]}, has no program here'
    which = 'codes' if coverage.total == len(coverage.codes) else 'selected codes'
    return f'None of the {coverage.total} {which} has its program here'


def _nothing_measured(table: list[CellText]) -> str:
    """Return the sentence where no cell counts as a figure, with the most frequent reason."""
    left_out = [row for row in table if row.cell.value is not None]
    counts = Counter(row.reason for row in (left_out or table))
    reasons = [reason for reason, _ in counts.most_common() if reason]
    why = _all_not_offered(reasons) or (reasons[0] if reasons else 'no case was planned')
    what = 'All that was measured is left out' if left_out else 'Nothing was measured'
    return f'{what}: {why}.'


def _all_not_offered(reasons: list[str]) -> str:
    """Return one sentence with every feature that no environment offers; '' where the first reason is another."""
    begin = not_offered(())
    if not reasons or not reasons[0].startswith(begin):
        return ''
    return begin + ', '.join(reason.removeprefix(begin) for reason in reasons if reason.startswith(begin))


def _why(over: Incident) -> str:
    return f' ({over.closed.text})' if over.closed and over.closed.text else ''


def _head(verdict: Verdict, table: list[CellText]) -> str:
    session = verdict.session
    begin, end = map(datetime.datetime.fromisoformat, (session.start, session.end))
    nodes = {node for row in table for node in row.cell.ran_on or row.cell.nodes}
    facts: dict[str, Any] = session.facts.get('machine') or {}
    one_machine = nodes <= {facts.get('hostname')}
    parts = [session.system,
             _machine(facts) if one_machine else counted(len(nodes), 'node'),
             f'{begin:%Y-%m-%d %H:%M} to {end:%H:%M}',
             f'session {session.uuid[:8]}']
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
    reasons: Counter[str] = Counter()
    for cell in verdict.cells:
        if cell.anew and cell.state == 'learning' and cell.restarts < RESTARTS:
            reasons[_changed(cell.anew, verdict.session.start[:10])] += 1
    shown = reasons.most_common(WARNINGS)
    for why, count in shown:
        yield f'{counted(count, "cell")} {_learn(count)} anew: {why}'
    rest = reasons.total() - sum(count for _, count in shown)
    if rest:
        yield f'{counted(rest, "more cell")} {_learn(rest)} anew: parity verdict --json'
    former = sum(bool(cell.anew) and cell.state != 'learning' for cell in verdict.cells)
    if former:
        yield f'{counted(former, "accepted value")} of former work: parity refs propose'


def _learn(count: int) -> str:
    return 'learns' if count == 1 else 'learn'


def _changed(changes: list[Change], today: str) -> str:
    """Return which facts of a cell's work changed, and when it was not today."""
    facts = [change.fact for change in changes if change.fact != 'check'] or ['check']
    day = changes[0].when[:10]
    text = f'{several(facts)} changed'
    return text if day == today else f'{text} on {day}'


def _never_judged(verdict: Verdict) -> Iterator[str]:
    """Yield how many cells can never be judged, as their work changes before they learned it, and an example."""
    restarted = [cell for cell in verdict.cells if cell.restarts >= RESTARTS]
    groups = grouped(restarted, lambda cell: several([change.fact for change in cell.anew]))
    largest_first = sorted(groups.items(), key=lambda group: -len(group[1]))
    for facts, cells in largest_first[:WARNINGS]:
        restarts = max(cell.restarts for cell in cells)
        change = cells[0].anew[0]
        yield (f'{counted(len(cells), "cell")} can never be judged: {facts} changed {restarts} times, never after '
               f'{FIRST + 1} nights alike; the last time {change.old} -> {change.new}')


def _notes(verdict: Verdict, table: list[CellText], entries: list[FaultEntry]) -> Iterator[tuple[str, str]]:
    """Yield a label and a sentence for each kind of the rest; '' where there is none."""
    yield from _warnings(verdict)
    yield from _incidents(verdict, table, entries)
    yield from _cells(table)
    states: Counter[str] = Counter()
    for pair in verdict.pairs:
        states[f'{pair.state}, acknowledged' if pair.acknowledged else pair.state] += 1
    yield 'pairs', ' · '.join(f'{count} {state}' for state, count in sorted(states.items()))
    yield 'covers', verdict.coverage.line
    yield 'trust', verdict.trust
    if not any(entry.next for entry in entries):     # an entry ends with its own
        yield 'next', verdict.next


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
    acked = [row for row in table if row.cell.acknowledged]
    numbers = {row.cell.incident for row in acked if row.cell.incident}
    numbers |= {incident.number for incident in
                incidents.of_nodes(verdict.incidents, verdict.session.uuid, acknowledged=True)}
    numbers |= {pair.incident for pair in verdict.pairs if pair.acknowledged}
    yield 'known', words.numbers(sorted(numbers), 'known')
    without = [f'{row.name}: acknowledged {row.cell.acknowledged}' for row in acked if not row.cell.incident]
    yield from _first('known', without, KNOWN, 'known fault', 'parity ack --list')
    over = [f'incident {incident.number}{_why(incident)}: {incident.title}' for incident in _over(verdict)]
    yield from _first('over', over, FEW, 'incident', 'parity verdict --json')
    here = {entry.incident for entry in entries} | numbers
    left = [incident for incident in verdict.incidents if not incident.closed and incident.number not in here]
    for state, incidents_left in grouped(left, attrgetter('state')).items():
        texts = [f'incident {incident.number}: {incident.title}: {words.waits(incident)}'
                 for incident in incidents_left]
        yield from _first(state, texts, FEW, 'incident', 'parity verdict --json')


def _first(label: str, texts: Sequence[str], most: int, noun: str, command: str) -> Iterator[tuple[str, str]]:
    """Yield the first texts, and how many more the command prints."""
    for text in texts[:most]:
        yield label, text
    rest = len(texts[most:])
    if rest:
        yield label, f'{counted(rest, f"more {noun}")}: {command}'


def _cells(table: list[CellText]) -> Iterator[tuple[str, str]]:
    """Yield the lines on cells that nobody need act on."""
    cells = [row.cell for row in table]
    by_word = grouped(cells, attrgetter('verdict'))
    low = sorted((row for row in table if row.cell.once), key=lambda row: -row.cell.once)
    yield from _first('once', [_once(row) for row in low], FEW, 'figure', 'parity verdict --all')
    yield 'slightly', slight(cells)
    yield 'improved', several([row.title for row in table if row.word == 'improved'])
    if 'ok' in by_word:
        new = len(by_word.get('unreferenced', ())) + len(by_word.get('insufficient', ()))
        text = counted(len(by_word['ok']), 'figure')
        yield 'in order', f'{text}; {new} too new to judge' if new else text
    if 'blind' in by_word:
        yield 'blind', _blind(by_word['blind'])
    if 'skipped' in by_word:
        skipped = by_word['skipped']
        kinds = Counter(_KINDS.get(cell.kind, 'for other reasons') for cell in skipped)
        listed = ', '.join(f'{count} {kind}' for kind, count in kinds.most_common())
        yield 'left out', f'{counted(len(skipped), "cell")}: {listed} (parity verdict --skipped)'


def _blind(cells: list[Cell]) -> str:
    text = f'{counted(len(cells), "figure")} would not show a slowdown of {figures.percent(WANTED)}'
    shown = [cell.visible for cell in cells if cell.visible]
    if shown:
        text += f'; the best shows one of {figures.percent(min(shown))}'
    return f'{text} (parity verdict --all)'


def _once(row: CellText) -> str:
    """Return 'Stream.triad@daint:gpu: tonight 12 % low on c3 (not slow on c4): a slowdown if it lasts'."""
    cell = row.cell
    where = cell.cause.where if cell.cause else Where()
    place = f' on {where.name} ({where.why})' if where.kind == 'node' else ''
    side = 'low' if cell.better == 'higher' else 'high'
    return f'{row.name}: tonight {figures.percent(cell.once)} {side}{place}: a slowdown if it lasts'


def slight(cells: Sequence[Cell]) -> str:
    """Return '12 figures 2.1 to 3.8 % slower since 2026-11-20', of slowdowns too small to alarm; '' for none."""
    slower = [cell for cell in cells if cell.slight]
    if not slower:
        return ''
    shares = sorted(cell.slight for cell in slower)
    least, most = figures.percent(shares[0]), figures.percent(shares[-1])
    span = least if least == most else f'{least.removesuffix(" %")} to {most}'
    since = times.day(min(cell.begin for cell in slower))
    return (f'{counted(len(slower), "figure")} {span} slower since {since}: too little to alarm '
            '(alarms: least)')


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
    if most is None:
        entries, room = answer.entries, inf
    else:
        entries = sorted(answer.entries, key=lambda entry: not entry.news)
        room = most - len(top) - len(notes) - 1
    shown = [list(_entered(entry)) for entry in entries]
    fitting = sum(end <= room for end in accumulate(map(len, shown)))
    some = min(ENTRIES, max(1, fitting))
    whole = top + list(chain.from_iterable(shown[:some]))
    if len(entries) > some:
        whole.append(f'and {counted(len(entries) - some, "more cause")}: parity verdict --all')
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
    for text in _wrapped(sentence):
        yield text.replace(_FIRM, ' '), 'bold red' if code else 'bold green'
    age = f' ({figures.duration(verdict.session.age)} old)' if verdict.session.age >= 0 else ''
    head = answer.head.replace(' · session ', f'{age} · session ').replace(' ', _FIRM)
    parts = head.replace(f'{_FIRM}·{_FIRM}', f' ·{_FIRM}')       # a line ends between parts only
    for text in _wrapped(parts):
        yield text.replace(_FIRM, ' ')
    yield from filter(None, (answer.counts, *answer.anew))
    if answer.headlines:
        yield ''
        for line in columns(_headline_table(answer.headlines), right=(2,)):
            yield line[2:]


def _headline_table(headlines: list[Headline]) -> list[list[str]]:
    width = 5 if any(headline.could for headline in headlines) else 3
    table = [['', '', 'this machine', 'could do', 'share']]
    before = ''
    for headline in headlines:
        share = ''
        if headline.share is not None:
            share = f'{figures.percent(headline.share):>5} {bar(headline.share)}'
        subsystem = '' if headline.subsystem == before else headline.subsystem
        before = headline.subsystem
        table.append([subsystem, headline.name, headline.figure, brief(headline.could, 35), share])
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
    width = max(len(label) for label, _ in notes) + 2
    for label, text in notes:
        yield from _wrapped(text, f'{label:{width}}', ' ' * width)


def _wrapped(text: str, first: str = '', other: str | None = None) -> list[str]:
    following = first if other is None else other
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=following,
                         break_long_words=False, break_on_hyphens=False)


def bar(share: float) -> str:
    """Return a bar of ``share`` of 12 characters, in eighths of one."""
    within = min(max(share, 0.0), 1.0)
    full, rest = divmod(round(8 * 12 * within), 8)
    return (BLOCKS[-1] * full + BLOCKS[rest]).strip()
