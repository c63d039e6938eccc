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
from typing import Any

from parity.base import codes, figures, times
from parity.base.console import Line, styled
from parity.base.figures import counted, several
from parity.base.groups import grouped
from parity.base.reasons import Kind
from parity.base.strict import Strict
from parity.base.text import brief, columns, visible
from parity.judge.report import incidents as words
from parity.judge.stats.bounds import FIRST, WANTED
from parity.judge.store.incidents import Incident, Where, WithVerdict
from parity.judge.verdict import incidents, judge
from parity.judge.verdict.incidents import BAD, FaultGroup
from parity.judge.verdict.model import (
    RESTARTS,
    WORDS,
    Attribution,
    Cell,
    CellText,
    Coverage,
    Subsystem,
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
    return Answered(**dict(verdict), answer=of(verdict))


def of(verdict: Verdict) -> Answer:
    """Return the answer of a verdict."""
    table = rows(verdict.cells)
    judged = any(cell.is_judged for cell in verdict.cells)
    entries = sorted(_entries(table, verdict), key=lambda entry: WORDS.index(entry.word))
    return Answer(sentence=_sentence(verdict, table, entries), head=_head(verdict, table), entries=entries,
                  counts=_counts(table), anew=list(_anew(verdict)),
                  headlines=[] if judged else list(_headlines(table, not entries)),
                  notes=[(label, text) for label, text in _notes(verdict, table, entries) if text])


# ---- entries

def _entries(table: list[CellText], verdict: Verdict) -> Iterator[FaultEntry]:
    """Yield an entry for each cause, for each slow node of no slower cell, and for each pair that is not as
    expected."""
    known = {incident.number: incident for incident in verdict.incidents}
    groups = incidents.causes(row for row in table if row.word in BAD and not row.cell.acknowledged)
    slow = [row.cell for cause in groups if cause.rows[0].word == 'regressed' for row in _shown(cause.rows)]
    nights = _nights(slow, verdict.session.uuid) if slow else {}
    for cause in sorted(groups, key=lambda cause: -len(cause.rows)):
        incident = known.get(cause.rows[0].cell.incident)
        yield _linked(incident, _entry(cause, incident, nights), verdict)
    shown = {row.cell.incident for cause in groups for row in cause.rows}
    for incident in incidents.of_nodes(known.values(), verdict.session.uuid):
        if incident.number not in shown:
            yield _linked(incident, FaultEntry(verdict='regressed', title=incident.title, cells=[], figures=[],
                                               lines=[f'where: {incident.where}'], next='parity show'), verdict)
    for pair in verdict.pairs:
        if pair.state == 'regressed' and not pair.acknowledged:
            incident = next((each for each in known.values() if incidents.of_pair(pair) in each.faults), None)
            yield _linked(incident, FaultEntry(
                verdict='regressed', cells=[], figures=[], lines=[f'expected {pair.expected}: {pair.why}'],
                title=f'{pair.candidate} / {pair.baseline}: {pair.benchmark} {pair.metric}{pair.suffix}',
                next=f'parity compare {pair.baseline} {pair.candidate}'), verdict)


def _linked(incident: Incident | None, entry: FaultEntry, verdict: Verdict) -> FaultEntry:
    """Return the entry, with its incident where it has one."""
    if incident is None:
        return entry
    news = incidents.turn(incident, verdict.session.uuid)
    ends = []                        # how a person ends an incident that no measurement ends
    if entry.word == 'failed':
        ends = [f'known fault: parity ack {incident.number} --until DATE --why TEXT']
    elif entry.word == 'missing' and entry.cells:
        ends = [f'never here: waivers: (a code) or retired: (a case) in systems/{incident.system}/system.yaml']
    caused = [f'cause: {incident.cause.text}'] if incident.cause else []
    return entry.model_copy(update={
        'incident': incident.number, 'news': news, 'lines': [*entry.lines, *caused, *ends],
        'title': f'{incident.title} (incident {incident.number}, {news or incident.since_text})',
        'next': f'parity show {incident.number}' if entry.next.startswith('parity show') else entry.next})


def _shown(group: list[CellText]) -> list[CellText]:
    return [row for row in group if row.cell.value is not None][:FIGURES]


def _entry(cause: FaultGroup, incident: Incident | None, nights: dict[int, tuple[str, str]]) -> FaultEntry:
    """``nights``: by the cell's id, its last nights and its runs of this one. Place and part are the incident's,
    as its title is."""
    group = cause.rows
    worst, shown = group[0], _shown(group)
    lines = [nights.get(id(row.cell), ('', ''))[1] for row in shown[:1]]
    lines += [worst.reason, *_other_reasons(group)]
    if worst.cell.cause:
        lines += _of_cause(worst.cell.cause, incident or cause)
    return FaultEntry(verdict=worst.word, title=cause.title, cells=[row.name for row in group],
                      figures=[_figure(row, nights.get(id(row.cell), ('', ''))[0]) for row in shown],
                      lines=[*filter(None, lines)],
                      next='' if worst.word == 'missing' else f'parity show {shlex.quote(worst.name)}')


def _of_cause(found: Attribution, whole: Incident | FaultGroup) -> list[str]:
    """Return a line for place, part and some changes: of a cell, but as all cells of its incident have them."""
    where = found.where if found.where.kind == whole.where.kind == '' else whole.where
    part = found.subsystem
    if whole.part and part.name != whole.part:
        part = Subsystem(name=whole.part)
    return found.model_copy(update={'where': where, 'subsystem': part}).lines(3)


def _other_reasons(group: list[CellText]) -> list[str]:
    """Return a reason of each kind of failure but the first one's, with its cell: a node that dies fails cases in
    several ways."""
    first: dict[Kind, CellText] = {}
    for row in group:
        if row.word in ('failed', 'missing'):
            first.setdefault(row.cell.kind, row)
    return [f'{row.name}: {row.reason}' for row in first.values()
            if row is not group[0] and row.reason not in ('', group[0].reason)]


def _nights(cells: list[Cell], session: str) -> dict[int, tuple[str, str]]:
    """Return for each cell, by its id, its last nights as blocks, and its runs of this night."""
    from parity.judge.report import show  # it loads polars, which a verdict without a slow cell does not need
    found = zip(cells, show.stored_nights(cells, session), strict=True)
    return {id(cell): (show.sparkline([night.value for night in nights]) if len(nights) > 1 else '',
                       show.runs(cell, nights, session)) for cell, nights in found}


def _figure(row: CellText, nights: str) -> list[str]:
    """Return name, before -> now, change, and the last nights."""
    cell = row.cell
    (before, now), unit = figures.alike(cell.unit, cell.expected, cell.value)
    return [row.title, f'{before} -> {now} {unit}' if cell.expected is not None else f'{now} {unit}',
            figures.change(cell.value, cell.expected), nights]


# ---- the first figures

def _headlines(table: list[CellText], alone: bool) -> Iterator[Headline]:
    """Yield the figures that the codes name for a first screen, a few of each subsystem; all of less than FEW
    where they stand ``alone``, without a cause."""
    measured = [row for row in table if row.cell.value is not None and not row.cell.label]
    few, places = alone and len(measured) < FEW, {row.cell.partition for row in measured}
    patterns = [each for code in codes.every() for each in code.headlines.items()]
    fits = re.compile('|'.join(f'(?:{pattern})' for pattern, _ in patterns)).match
    likely = [(row, key) for row in measured if fits(key := row.name.partition('@')[0])]
    named = [(row, name) for pattern, name in patterns for row, key in likely if re.match(pattern, key)]
    named += [(row, row.title) for row in measured if few and all(row is not one for one, _ in named)]
    found: dict[str, dict[str, Headline]] = {}
    for row, name in named:
        cell, own = row.cell, f'{name}, {row.cell.partition}' if len(places) > 1 else name
        limit = figures.figure(cell.limit, cell.unit) if cell.limit else ''
        found.setdefault(cell.subsystem, {}).setdefault(own, Headline(
            subsystem=cell.subsystem, name=own, figure=row.figure, share=cell.efficiency,
            could=f'{limit}: {_SAME.sub("", cell.limit_source)}' if limit else ''))
    for subsystem in sorted(found):
        yield from list(found[subsystem].values())[:FEW if few else HEADLINES * len(places)]


# ---- sentences

def _sentence(verdict: Verdict, table: list[CellText], entries: list[FaultEntry]) -> str:
    measured = sum(row.cell.is_figure for row in table)
    figures = counted(measured, 'figure')
    judged_rows = [row for row in table if row.cell.is_judged]
    judged = len(judged_rows)
    low = sum(bool(row.cell.once) for row in judged_rows)
    blind = sum(row.word == 'blind' and not (row.cell.once or row.cell.slight) for row in judged_rows)
    if entries:
        anew = next((f'{line}.' for line in _anew(verdict)), '')
        rest = f'{len(entries) - 1} more below.' if entries[1:] else anew if anew or not judged else \
            f'{counted(low, "more figure", "are")} slower tonight.' if low else \
            'All else that shows is as it was.' if blind else 'All else is as it was.'
        return f'{entries[0].title}. {rest}'.strip()
    over = [f'Incident {each.number} is over{_why(each)}: {each.title}.' for each in verdict.incidents
            if incidents.turn(each, verdict.session.uuid) == 'over']
    if over and not verdict.exit_code:
        return ' '.join(over[:3])
    if verdict.exit_code and measured and verdict.warnings:
        return f'{verdict.warnings[0][0].upper()}{verdict.warnings[0][1:]}.'
    if not measured:
        return _nothing_measured(table)
    if all(row.cell.label == 'test bed' for row in table if row.cell.is_figure):
        return f'The test bed works: {figures}, none wrong. No figure is a measurement.'
    if often := judge.too_often(verdict.cells):
        return _too_often(often, measured)
    lacking = _lacking(verdict.coverage)
    if not judged:
        return _none_judged(verdict, table, figures, lacking)
    small = sum(bool(row.cell.slight) for row in judged_rows)
    counts = ((sum(bool(row.cell.acknowledged) for row in judged_rows), 'known'),
              (sum(row.word == 'improved' for row in judged_rows), 'improved'), (low, 'slower tonight'),
              (small, 'slightly slower'), (blind, 'blind'))
    rest = [f'{count} {what}' for count, what in counts if count]
    if sum(count for count, _ in counts) < judged:
        rest.append('the others are as they were' if rest else 'all are as they were')
    answer = f'{judged} of {counted(measured, "figure", "are")} judged: {", ".join(rest)}.'
    return f'{answer} {lacking}.' if lacking else answer


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
    counted_reasons = Counter(row.reason for row in left_out or table if row.reason)
    reasons = [reason for reason, _ in counted_reasons.most_common()]
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
    cores, memory = len(facts.get('core_sets') or ()), facts.get('memory_bytes')
    machine = ', '.join(filter(None, (
        counted(cores, 'core') if cores else '', facts.get('model_name'), memory and figures.figure(memory, 'B'),
        f'{facts["backend"]} guest' if facts.get('kind') == 'virtual' else '')))
    return ' · '.join(filter(None, (
        session.system, machine if nodes <= {facts.get('hostname')} else counted(len(nodes), 'node'),
        f'{begin:%Y-%m-%d %H:%M} to {end:%H:%M}',
        f'session {session.uuid[:8]}',
        'interrupted' if session.interrupted else '')))


def _counts(table: list[CellText]) -> str:
    counts = Counter('known' if row.cell.acknowledged else row.word for row in table if row.cell.is_judged)
    return ' · '.join(f'{counts[word]} {word}' for word in (*BAD, 'known', 'improved', 'ok', 'blind')
                      if counts[word])


def _anew(verdict: Verdict) -> Iterator[str]:
    """Yield how many cells learn anew, and why; those that do for most reasons in one line. Then how many learned
    it, and have an accepted value of the work before."""
    groups: Counter[str] = Counter()
    former = sum(bool(cell.anew) and cell.state != 'learning' for cell in verdict.cells)
    yield from _never_judged(verdict)
    for changes in (cell.anew for cell in verdict.cells
                    if cell.anew and cell.state == 'learning' and cell.restarts < RESTARTS):
        facts = [change.fact for change in changes if change.fact != 'check'] or ['check']
        day = changes[0].when[:10]
        groups[f'{several(facts)} changed' + (f' on {day}' if day != verdict.session.start[:10] else '')] += 1
    named = [(count, 'cell', why) for why, count in groups.most_common(WARNINGS)]
    rest = groups.total() - sum(count for count, *_ in named)
    for count, noun, text in (*named, *([(rest, 'more cell', 'parity verdict --json')] if rest else [])):
        yield f'{counted(count, noun)} {"learns" if count == 1 else "learn"} anew: {text}'
    if former:
        yield f'{counted(former, "accepted value")} of former work: parity refs propose'


def _never_judged(verdict: Verdict) -> Iterator[str]:
    """Yield how many cells can never be judged, as their work changes before they learned it, and an example."""
    groups: dict[str, list[Cell]] = {}
    for cell in verdict.cells:
        if cell.restarts >= RESTARTS:
            groups.setdefault(several([change.fact for change in cell.anew]), []).append(cell)
    for facts, cells in sorted(groups.items(), key=lambda each: -len(each[1]))[:WARNINGS]:
        restarts, change = max(cell.restarts for cell in cells), cells[0].anew[0]
        yield (f'{counted(len(cells), "cell")} can never be judged: {facts} changed {restarts} times, never after '
               f'{FIRST + 1} nights alike; the last time {change.old} -> {change.new}')


def _notes(verdict: Verdict, table: list[CellText], entries: list[FaultEntry]) -> Iterator[tuple[str, str]]:
    """Yield a label and a sentence for each kind of the rest; '' where there is none."""
    yield from _warnings(verdict)
    yield from _incidents(verdict, table, entries)
    yield from _cells(table)
    states = Counter(pair.state + ', acknowledged' * bool(pair.acknowledged) for pair in verdict.pairs)
    yield 'pairs', ' · '.join(f'{n} {state}' for state, n in sorted(states.items()))
    yield 'covers', verdict.coverage.line
    yield 'trust', verdict.trust
    yield 'next', '' if any(entry.next for entry in entries) else verdict.next     # an entry ends with its own


def _warnings(verdict: Verdict) -> Iterator[tuple[str, str]]:
    yield from _first('careful', verdict.warnings, WARNINGS, 'warning', 'parity verdict --all')
    facts = verdict.session.facts
    load = (facts.get('before') or {}).get('load_1min')
    cores = len((facts.get('machine') or {}).get('core_sets', ()))
    if load and cores and load >= cores:        # the set-up before the run has a load of its own
        yield 'careful', f'the load was {load:.1f} before: figures may be low; run it again on an idle machine'
    if disturbed := verdict.counts.get('disturbed'):
        yield 'disturbed', (f'{counted(disturbed, "figure")}, while others used the CPUs or the clock was wrong: '
                            'shown, not judged')


def _incidents(verdict: Verdict, table: list[CellText], entries: list[FaultEntry]) -> Iterator[tuple[str, str]]:
    """Yield the lines on what is acknowledged, over, or open without a cell tonight."""
    acked = [row for row in table if row.cell.acknowledged]
    nodes = incidents.of_nodes(verdict.incidents, verdict.session.uuid, acknowledged=True)
    numbers = {row.cell.incident for row in acked} - {0} | {each.number for each in nodes}
    numbers |= {pair.incident for pair in verdict.pairs if pair.acknowledged}
    yield 'known', words.numbers(sorted(numbers), 'known')
    known = [f'{row.name}: acknowledged {row.cell.acknowledged}' for row in acked if not row.cell.incident]
    yield from _first('known', known, KNOWN, 'known fault', 'parity ack --list')
    here = {entry.incident for entry in entries} | numbers
    over = [f'incident {each.number}{_why(each)}: {each.title}' for each in verdict.incidents
            if incidents.turn(each, verdict.session.uuid) == 'over']
    yield from _first('over', over, FEW, 'incident', 'parity verdict --json')
    left = [each for each in verdict.incidents if each.closed is None and each.number not in here]
    for state, same in grouped(left, attrgetter('state')).items():
        yield from _first(state, [f'incident {each.number}: {each.title}: {words.waits(each)}' for each in same],
                          FEW, 'incident', 'parity verdict --json')


def _first(label: str, texts: Sequence[str], most: int, noun: str, command: str) -> Iterator[tuple[str, str]]:
    """Yield the first texts, and how many more the command prints."""
    yield from ((label, text) for text in texts[:most])
    if rest := len(texts[most:]):
        yield label, f'{counted(rest, f"more {noun}")}: {command}'


def _cells(table: list[CellText]) -> Iterator[tuple[str, str]]:
    """Yield the lines on cells that nobody need act on."""
    cells = [row.cell for row in table]
    by_word = Counter(cell.verdict for cell in cells)
    low = sorted((row for row in table if row.cell.once), key=lambda row: -row.cell.once)
    yield from _first('once', [_once(row) for row in low], FEW, 'figure', 'parity verdict --all')
    yield 'slightly', slight(cells)
    yield 'improved', several([row.title for row in table if row.word == 'improved'])
    new = sum(c.verdict in ('unreferenced', 'insufficient') for c in cells)
    if by_word['ok']:
        yield 'in order', counted(by_word["ok"], "figure") + (f'; {new} too new to judge' if new else '')
    blind = [cell.visible for cell in cells if cell.verdict == 'blind']
    if blind:
        best = f'; the best shows one of {figures.percent(min(filter(None, blind)))}' if any(blind) else ''
        yield 'blind', (f'{counted(len(blind), "figure")} would not show a slowdown of '
                        f'{figures.percent(WANTED)}{best} (parity verdict --all)')
    skipped = Counter(_KINDS.get(c.kind, 'for other reasons') for c in cells if c.verdict == 'skipped')
    if skipped:
        kinds = ', '.join(f'{n} {kind}' for kind, n in skipped.most_common())
        yield 'left out', f'{counted(by_word["skipped"], "cell")}: {kinds} (parity verdict --skipped)'


def _once(row: CellText) -> str:
    """Return 'Stream.triad@daint:gpu: tonight 12 % low on c3 (not slow on c4): a slowdown if it lasts'."""
    cell = row.cell
    where = cell.cause.where if cell.cause else Where()
    place = f' on {where.name} ({where.why})' if where.kind == 'node' else ''
    side = 'low' if cell.better == 'higher' else 'high'
    return f'{row.name}: tonight {figures.percent(cell.once)} {side}{place}: a slowdown if it lasts'


def slight(cells: Sequence[Cell]) -> str:
    """Return '12 figures 2.1 to 3.8 % slower since 2026-11-20', of slowdowns too small to alarm; '' for none."""
    lost = sorted(cell.slight for cell in cells if cell.slight)
    if not lost:
        return ''
    ends = list(dict.fromkeys(figures.percent(share) for share in (lost[0], lost[-1])))
    span = ' to '.join(ends) if len(ends) == 1 else f'{ends[0].removesuffix(" %")} to {ends[1]}'
    since = min(cell.begin for cell in cells if cell.slight)
    return (f'{counted(len(lost), "figure")} {span} slower since {times.day(since)}: too little to alarm '
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
    said, notes = list(_top(answer, verdict, exits)), ['', *noted(answer.notes)]
    entries = sorted(answer.entries, key=lambda entry: not entry.news) if most else answer.entries
    shown = [list(_entered(entry)) for entry in entries]
    room = inf if most is None else most - len(said) - len(notes) - 1
    some = min(ENTRIES, max(1, sum(end <= room for end in accumulate(map(len, shown)))))
    said += chain.from_iterable(shown[:some])
    if len(entries) > some:
        said.append(f'and {counted(len(entries) - some, "more cause")}: parity verdict --all')
    said += notes
    if most is not None and len(said) > most:
        said[most - 1:] = [f'and {counted(len(said) - most + 1, "more line")}: parity verdict']
    # nothing a job printed commands the terminal
    return [(visible(text), style) for text, style in map(styled, said)]


def _top(answer: Answer, verdict: Verdict, exits: bool) -> Iterator[Line]:
    """Yield the sentence, the head, the counts and the headlines."""
    code = verdict.exit_code
    shown = f'  (exit\xa0code\xa0{code})' if code and exits else ''
    for text in _wrapped(answer.sentence + shown):
        yield text.replace('\xa0', ' '), 'bold red' if code else 'bold green'
    age = f' ({figures.duration(verdict.session.age)} old)' if verdict.session.age >= 0 else ''
    head = answer.head.replace(' · session ', f'{age} · session ')
    parts = head.replace(' ', '\xa0').replace('\xa0·\xa0', ' ·\xa0')       # a line ends between parts only
    yield from (text.replace('\xa0', ' ') for text in _wrapped(parts))
    yield from filter(None, (answer.counts, *answer.anew))
    if answer.headlines:
        width = 5 if any(each.could for each in answer.headlines) else 3
        table, before = [['', '', 'this machine', 'could do', 'share'][:width]], ''
        for each in answer.headlines:
            share = '' if each.share is None else f'{figures.percent(each.share):>5} {bar(each.share)}'
            subsystem, before = '' if each.subsystem == before else each.subsystem, each.subsystem
            table.append([subsystem, each.name, each.figure, brief(each.could, 35), share][:width])
        yield from ('', *(line[2:] for line in columns(table, right=(2,))))


def _entered(entry: FaultEntry) -> Iterator[Line]:
    yield from ('', (entry.title, 'bold'), *columns(entry.figures))
    rest = len(entry.cells) - len(entry.figures)
    if rest > 0 < len(entry.figures):
        yield f'  and {counted(rest, "more cell")}'
    yield from (text for line in (*entry.lines, entry.next) if line for text in _wrapped(line, '  '))


def noted(notes: list[tuple[str, str]]) -> Iterator[str]:
    """Yield the lines of (label, text), the texts below one another."""
    width = max(len(label) for label, _ in notes) + 2
    for label, text in notes:
        yield from _wrapped(text, f'{label:{width}}', ' ' * width)


def _wrapped(text: str, first: str = '', other: str | None = None) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=first if other is None else other,
                         break_long_words=False, break_on_hyphens=False)


def bar(share: float) -> str:
    """Return a bar of ``share`` of 12 characters, in eighths of one."""
    eighths = round(8 * 12 * min(max(share, 0.0), 1.0))
    return (BLOCKS[-1] * (eighths // 8) + BLOCKS[eighths % 8]).strip()
