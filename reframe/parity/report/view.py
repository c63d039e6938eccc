"""What the page shows, in its order: plain data, put together from a verdict before any HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

from parity import figures
from parity.report import text
from parity.verdict.model import WORDS, Cell, Verdict

SUBSYSTEMS = ('compute', 'memory', 'network', 'storage', 'gpu')

#: How much of a reason stands in the table, and how much at most where it is told in full:
#: verdict.json has all of it.
SHORT, FULL = 140, 4000

#: An entry with more cases than this is folded.
MANY = 8


@dataclass(eq=False)
class Row:
    """One cell of the table; every number is text already, '' where there is none."""

    cell: Cell
    id: str
    unit: str
    value: str
    change: str
    reference: str
    band: str
    limit: str
    note: int                        # number of the footnote that names the limit's source; 0: none
    efficiency: str
    bar: int | None                  # per cent of the bar that is filled
    reason: str


@dataclass
class Case:
    """The rows of one case, and what is the same for all of them."""

    name: str
    facts: list[str]
    link: str
    output: str
    reason: str
    rows: list[Row]


@dataclass
class Entry:
    """Cells that are not ok for one and the same reason."""

    word: str
    place: str
    reason: str
    short: bool                      # the reason fits on the entry's first line
    rest: int                        # characters of the reason that only verdict.json has
    lines: list[Row]                 # those with a value: told one by one
    names: list[tuple[str, list[Row]]]   # those without: named, by case
    folded: bool
    cells: int


@dataclass
class Fact:
    """A fact of the machine: text (and where it comes from), or further facts."""

    name: str
    text: str = ''
    source: str = ''
    inner: list[Fact] = field(default_factory=list)


@dataclass
class View:
    verdict: Verdict
    when: str
    counts: list[tuple[str, int]]
    attention: list[tuple[str, list[Entry]]]
    table: list[tuple[str, list[Case]]]
    sources: list[str]
    facts: list[Fact]


def build(verdict: Verdict, href: Callable[[str], str]) -> View:
    """``href`` gives the address of an output directory, or ''."""
    cells = _ordered(verdict.cells)
    sources = list(dict.fromkeys(_source(c) for c in cells if _source(c)))
    rows = [_row(cell, f'c{i}', sources) for i, cell in enumerate(cells, 1)]
    return View(
        verdict=verdict,
        when=verdict.session.start[:16].replace('T', ' '),
        counts=[(word, verdict.counts[word]) for word in ('ok', *WORDS[:-1]) if verdict.counts.get(word)],
        attention=_attention(rows),
        table=[(subsystem, [_case(list(same), href) for _, same in groupby(group, _case_key)])
               for subsystem, group in _by_subsystem(rows)],
        sources=sources,
        facts=facts(verdict.session.facts),
    )


def _rank(subsystem: str) -> tuple[int, str]:
    known = SUBSYSTEMS.index(subsystem) if subsystem in SUBSYSTEMS else len(SUBSYSTEMS)
    return known, subsystem


def _ordered(cells: list[Cell]) -> list[Cell]:
    """By subsystem, cases together in the order in which they first appear."""
    first: dict[tuple, int] = {}
    for cell in cells:
        first.setdefault(_identity(cell), len(first))
    return sorted(cells, key=lambda c: (_rank(c.subsystem), first[_identity(c)]))


def _identity(cell: Cell) -> tuple:
    return (cell.check, cell.case, cell.system, cell.partition, cell.environ, cell.size, cell.attempt,
            tuple(cell.nodes), cell.jobid, cell.outputdir)


def _case_key(row: Row) -> tuple:
    return _identity(row.cell)


def _by_subsystem(rows: list[Row]) -> list[tuple[str, list[Row]]]:
    return [(name, list(group)) for name, group in groupby(rows, lambda r: r.cell.subsystem)]


def _source(cell: Cell) -> str:
    if cell.limit is None:
        return ''
    return f'{cell.limit_source or "source not stated"} ({"certain" if cell.limit_certain else "a ceiling"})'


def _row(cell: Cell, id: str, sources: list[str]) -> Row:
    texts, unit = figures.alike(cell.unit, cell.value, cell.reference, cell.low, cell.high, cell.limit)
    value, reference, low, high, limit = ('' if t == figures.NOTHING else t for t in texts)
    efficiency = '' if cell.efficiency is None else figures.percent(cell.efficiency)
    return Row(cell=cell, id=id, unit=unit if any((value, reference, low, high, limit)) else cell.unit,
               value=value, change=figures.change(cell.value, cell.reference), reference=reference,
               band=_band(low, high), limit=limit, note=sources.index(_source(cell)) + 1 if limit else 0,
               efficiency=efficiency, bar=_bar(cell.efficiency), reason=cell.reason)


def _band(low: str, high: str) -> str:
    if low and high:
        return f'{low} .. {high}'
    return f'at least {low}' if low else f'at most {high}' if high else ''


def _bar(efficiency: float | None) -> int | None:
    # The comparison is False for NaN as well: no bar.
    if efficiency is None or not efficiency >= 0:
        return None
    return round(100 * min(efficiency, 1.0))


def _case(rows: list[Row], href: Callable[[str], str]) -> Case:
    cell = rows[0].cell
    reasons = {r.reason for r in rows}
    common = reasons.pop() if len(rows) > 1 and len(reasons) == 1 else ''
    for row in rows:
        row.reason = '' if common else text.brief(row.reason, SHORT)
    return Case(name=_name(cell), facts=_case_facts(cell), link=href(cell.outputdir),
                output=cell.outputdir, reason=text.brief(common, 2 * SHORT), rows=rows)


def _name(cell: Cell) -> str:
    return cell.case if cell.case.startswith(cell.check) else f'{cell.check}: {cell.case}'


def _case_facts(cell: Cell) -> list[str]:
    facts = [_place(cell), cell.environ, cell.size, ' '.join(cell.nodes[:4]) + _more(cell.nodes[4:]),
             f'job {cell.jobid}' if cell.jobid else '', f'attempt {cell.attempt}' if cell.attempt > 1 else '']
    return [text.brief(fact, 100) for fact in facts if fact]


def _more(rest: list[str]) -> str:
    return f' and {len(rest)} more' if rest else ''


def _place(cell: Cell) -> str:
    return f'{cell.system}:{cell.partition}' if cell.partition else cell.system


def _attention(rows: list[Row]) -> list[tuple[str, list[Entry]]]:
    """What is not ok, by subsystem: the one with the worst word first, and the worst word first in it."""
    groups = [(name, _entries([r for r in group if r.cell.verdict != 'ok']))
              for name, group in _by_subsystem(rows)]
    return sorted(((name, entries) for name, entries in groups if entries),
                  key=lambda g: (WORDS.index(g[1][0].word), _rank(g[0])))


def _entries(rows: list[Row]) -> list[Entry]:
    same: dict[tuple, list[Row]] = {}
    for row in sorted(rows, key=lambda r: WORDS.index(r.cell.verdict)):
        same.setdefault((row.cell.verdict, _place(row.cell), row.cell.reason), []).append(row)
    return [_entry(*key, group) for key, group in same.items()]


#: Words under which a value says nothing yet: their cells are named, the table has the figures.
QUIET = ('insufficient', 'unreferenced', 'skipped')


def _entry(word: str, place: str, reason: str, rows: list[Row]) -> Entry:
    told = {True: [], False: []}
    for row in rows:
        told[bool(row.value) and word not in QUIET].append(row)
    names = [(name, list(group)) for name, group in groupby(told[False], lambda r: _name(r.cell))]
    short = bool(reason) and len(reason) <= SHORT and '\n' not in reason and not told[True]
    return Entry(word=word, place=place, reason=reason[:FULL], short=short, rest=len(reason[FULL:]),
                 lines=told[True], names=names, folded=len(names) > MANY, cells=len(rows))


# A key's ending says what its number is counted in; the page then says it better.
_ENDINGS = {'bytes': 'B', 'hz': 'Hz', 'seconds': 's', 'percent': '%'}
_DEEPEST = 8
_LIMIT = {'value', 'unit', 'source', 'certain'}


def facts(given: dict, depth: int = 0) -> list[Fact]:
    """Nested facts as they were given, in their order; empty ones say so."""
    return [_fact(str(key), value, depth) for key, value in given.items()]


def _fact(key: str, value: object, depth: int) -> Fact:
    stem, _, ending = key.rpartition('_')
    unit = _ENDINGS.get(ending.lower(), '') if stem and (value is None or _is_number(value)) else ''
    name = text.brief((stem if unit else key).replace('_', ' '), 80)
    if isinstance(value, dict) and 'value' in value and value.keys() <= _LIMIT:
        return Fact(name, text=_scalar(value['value'], str(value.get('unit') or '')), source=_origin(value))
    if depth < _DEEPEST and isinstance(value, dict) and value:
        return Fact(name, inner=facts(value, depth + 1))
    if isinstance(value, list) and value:
        return _list(name, value, depth)
    return Fact(name, text=_scalar(value, unit))


def _origin(limit: dict) -> str:
    source = str(limit.get('source') or 'source not stated')
    return text.brief(source, 240) + (' (certain)' if limit.get('certain') else '')


def _list(name: str, values: list, depth: int) -> Fact:
    if depth >= _DEEPEST or not any(isinstance(v, dict | list) for v in values):
        return Fact(name, text=text.brief(', '.join(_scalar(v) for v in values), 400))
    return Fact(name, inner=[_item(str(i), v, depth + 1) for i, v in enumerate(values, 1)])


def _item(number: str, value: object, depth: int) -> Fact:
    """One of a list: a cache of one level, say, is a line and not a list of its own."""
    fact = _fact(number, value, depth)
    if any(f.inner for f in fact.inner):
        return fact
    line = ', '.join(f'{f.name} {f.text}' for f in fact.inner)
    return Fact(number, text=text.brief(line, 400) if fact.inner else fact.text, source=fact.source)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scalar(value: object, unit: str = '') -> str:
    if value is None or value == '':
        return 'not known'
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    # A count is a name as much as a number (a process id, a model): it keeps all of its digits.
    if _is_number(value) and (unit or isinstance(value, float)):
        return figures.figure(value, unit)
    if value in ({}, []):
        return 'none'
    return text.brief(str(value), 400)
