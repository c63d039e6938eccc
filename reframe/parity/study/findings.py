"""Fits, numbers and clusters of a study's figures, and whether its findings hold.

Everything is worked out twice: from the figures in print, and from those measured here."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from parity.base.figures import amount, number
from parity.base.strict import Strict
from parity.compare.model import Comparison, Row
from parity.study import formula
from parity.study.figures import Cell, named, quotient
from parity.study.model import Clusters, Derived, Finding, Formula, Point, Series, Study, filled

if TYPE_CHECKING:
    from parity.study.laws import Mean

Of = Literal['published', 'here']
Word = Literal['holds', 'does not hold', 'not testable', 'not printed']


class FitRow(Strict):
    """A law fitted to medians. ``low``, ``high``: of b (power), of a (inverse). A law in print has no points."""

    of: Of
    name: str
    law: str
    along: str
    points: int
    a: float | None = None
    b: float | None = None
    low: float | None = None
    high: float | None = None
    r2: float | None = None
    reason: str = ''


class NumberRow(Strict):
    of: Of
    name: str
    value: float | None
    low: float | None = None            # of a geometric mean: its 95 % interval
    high: float | None = None
    unit: str
    formula: str
    published: float | None             # what print says
    note: str
    label: str = ''                     # 'cached figures': it is not what it seems


class ClusterRow(Strict):
    """A group; in print it has no deviations."""

    of: Of
    name: str
    size: int
    centroid: dict[str, float]
    deviations: dict[str, float] = {}


class Judged(Strict):
    """A judged finding. ``published`` and ``here`` are its words, `why_...` the figures or the reason."""

    id: str
    says: str
    where: str
    kind: str
    statement: str
    published: Word
    why_published: str
    here: Word | Literal[''] = ''
    why_here: str = ''


class Analysis(Strict):
    fits: list[FitRow]
    numbers: list[NumberRow]
    clusters: list[ClusterRow]
    findings: list[Judged]


class _Part(NamedTuple):
    """One of the ratios, fits that must all agree. ``holds``: None where it is not testable. ``absent``: one of
    them was not measured."""

    holds: bool | None
    said: str
    absent: bool = False


def analysed(study: Study, published: Sequence[Cell], compared: Comparison,
             here: Sequence[Cell] | None = None, measured: Comparison | None = None,
             left_out: Sequence[Cell] = ()) -> Analysis:
    """Return what follows from the figures in print and, where there are any, from those measured here. Cells of
    ``left_out`` say why they could not be measured either."""
    sources: list[tuple[Of, Sequence[Cell], Comparison]] = [('published', published, compared)]
    sources += [('here', here, measured)] if here is not None and measured else []
    numbers = [row for of, cells, comparison in sources for row in (
        *(NumberRow(of=of, name=f'geometric_mean.{mean.subsystem}', value=mean.speed, unit='', published=None,
                    formula=f'geometric mean of {len(mean.checks)} speeds',
                    note=f'speed of {study.candidate}; {study.baseline}: 1') for mean in comparison.means),
        *_numbers(study, of, cells))]
    findings = [_judged(study, each, sources, numbers, left_out) for each in study.findings]
    findings.sort(key=lambda f: f.published != 'does not hold')
    return Analysis(numbers=numbers, findings=findings,
                    fits=[row for of, cells, _ in sources for row in _fits(study, of, cells)],
                    clusters=[row for of, cells, _ in sources for row in _clusters(study, of, cells)])


def chosen(cells: Sequence[Cell], series: Series) -> list[Cell]:
    """Return the cells of a series."""
    return [cell for cell in cells if (cell.experiment, cell.metric) == (series.experiment, series.metric)
            and all(cell.point.get(axis) in values for axis, values in series.fixed.items())]


def _grouped(cells: Sequence[Cell], axes: Sequence[str]) -> dict[tuple, list[Cell]]:
    """Return the cells by their point without ``axes``."""
    found: dict[tuple, list[Cell]] = {}
    for cell in cells:
        found.setdefault(tuple((a, v) for a, v in cell.point.items() if a not in axes), []).append(cell)
    return found


def _along(study: Study, cells: Sequence[Cell], axis: str) -> list[Cell]:
    """Return the cells that have values, in the order of an axis."""
    order = list(study.axes[axis].values)
    return sorted((c for c in cells if c.values), key=lambda c: order.index(c.point[axis]))


# ---- fits, numbers, clusters

def _fits(study: Study, of: Of, cells: Sequence[Cell]) -> Iterator[FitRow]:
    for fit in study.fits:
        series = study.series(fit.series)
        found = chosen(cells, series)
        if of == 'published' and not (found or fit.printed):
            yield FitRow(of=of, name=fit.series, law=fit.law, along=fit.along, points=0, reason='not printed')
        for point, group in _grouped(found, [fit.along]).items():
            if of == 'here' and not any(c.values for c in group):
                continue
            name = named(series.experiment, series.metric, dict(point))
            yield fitted(study, of, name, fit.law, group, fit.along)
        for cell in chosen(cells, study.series(fit.printed)) if fit.printed else ():
            yield FitRow(of=of, name=named(series.experiment, series.metric, cell.point), law=fit.law,
                         along=fit.along, points=0, a=cell.median, b=-1 if fit.law == 'inverse' else None,
                         reason='the law is printed, its points are not')


def numeric(cell: Cell, axis: str) -> float:
    """Return the value of an axis as a number, bytes for a size. ValueError where it is none."""
    if not (found := amount(cell.point[axis])):
        raise ValueError(f'{axis} {cell.point[axis]} is no number')
    return found[0]


def fitted(study: Study, of: Of, name: str, law: str, cells: Sequence[Cell], along: str) -> FitRow:
    """Fit a law to the medians along an axis; ``reason`` says why there is none."""
    from parity.study import laws
    points = _along(study, cells, along)
    try:
        found = getattr(laws, law)([numeric(c, along) for c in points], [c.median for c in points])
    except ValueError as err:
        return FitRow(of=of, name=name, law=law, along=along, points=len(points), reason=str(err))
    fields = {name: value for name, value in found._asdict().items() if name in FitRow.model_fields}
    if found.holds is False:
        fields['reason'] = '; '.join(filter(None, (found.reason, 'a free exponent is not -1')))
    return FitRow(**{**fields, 'of': of, 'name': name, 'along': along})


def _numbers(study: Study, of: Of, cells: Sequence[Cell]) -> Iterator[NumberRow]:
    for derived in study.numbers:
        worked = derived.here if of == 'here' and derived.here else derived
        if not worked.formula or of == 'here' and not worked.let:    # of no figures: it is among those in print
            continue
        for values in itertools.product(*derived.over.values()):
            over = dict(zip(derived.over, values, strict=True))
            value, why, label = _value(study, worked, over, cells)
            if value or of == 'published' and why:
                name = derived.name + ''.join(f' %{axis}={v}' for axis, v in over.items())
                printed, flag = _printed(study, derived, over, cells) if of == 'published' else (None, '')
                yield NumberRow(
                    of=of, name=name, value=value.value if value else None, low=value.low if value else None,
                    high=value.high if value else None, unit=derived.unit, formula=worked.formula,
                    note='; '.join(filter(None, (label, derived.note, why, flag))), label=label,
                    published=derived.published.get(' '.join(values), printed))


def _printed(study: Study, derived: Derived, over: dict[str, str],
             cells: Sequence[Cell]) -> tuple[float | None, str]:
    """Return a number as it stands in print, and a note where that figure is flagged."""
    if derived.printed:
        for cell in chosen(cells, study.series(filled(derived.printed, over))):
            if cell.values or cell.flagged:
                value, flag = cell.flagged[0] if not cell.values else (cell.median, '')
                return value, f'in print: {flag}' if flag else ''
    return None, ''


def _value(study: Study, worked: Formula, over: dict[str, str],
           cells: Sequence[Cell]) -> tuple[Mean | None, str, str]:
    """Return a number, a note: which of its figures are flagged, or why there is none ('': they are absent), and
    the label of its figures. A list has no flagged figure; of several lists over the same axes, only the points
    that all have count."""
    names: dict[str, object] = {axis: float({'yes': '1', 'no': '0'}.get(v, v)) for axis, v in over.items()
                                if v in ('yes', 'no') or v.replace('.', '', 1).isdigit()}
    said, used = [], []
    lists: dict[str, dict[tuple, float]] = {}
    for name, text in worked.let.items():
        series = study.series(filled(text, over))
        whole = all(len(series.fixed.get(axis, ())) == 1 for axis in study.experiments[series.experiment].axes)
        found = [c for c in chosen(cells, series) if c.values or whole and c.flagged]
        if not found:
            return None, '', ''
        used += found
        figures = [c.median if c.values else c.flagged[0][0] for c in found]
        said += [f'{c.name} is flagged: {c.flagged[0][1]}' for c in found if not c.values]
        if whole:
            names[name] = figures[0]
            continue
        free = [axis for axis in found[0].point if len(series.fixed.get(axis, ())) != 1]
        lists[name] = {tuple((axis, c.point[axis]) for axis in free): v
                       for c, v in zip(found, figures, strict=True)}
    for name, of in lists.items():
        axes = [axis for axis, _ in next(iter(of))]
        alike = [other for other in lists.values() if [axis for axis, _ in next(iter(other))] == axes]
        names[name] = [v for point, v in of.items() if all(point in other for other in alike)]
    try:
        return formula.value(worked.formula, names), '; '.join(said), _labels(used)
    except (ArithmeticError, ValueError) as err:
        return None, str(err), ''


def _labels(cells: Sequence[Cell]) -> str:
    """Return what figures are not what they seem, as `cached figures`; '' where all are."""
    words = dict.fromkeys(c.label.partition(':')[0] for c in cells if c.label)
    return f'{", ".join(words)} figures' if words else ''


def _clusters(study: Study, of: Of, cells: Sequence[Cell]) -> Iterator[ClusterRow]:
    for wanted in study.clusters:
        if of == 'here':
            yield from _divided(study, wanted, cells)
            continue
        columns = [chosen(cells, study.series(f'{wanted.experiment}.{name}'))
                   for name in (wanted.sizes, *wanted.of)]
        for sizes in columns[0]:
            found = [c for column in columns for c in column if c.point == sizes.point and c.values]
            if len(found) == len(columns):
                centroid = dict(zip(wanted.of, (c.median for c in found[1:]), strict=True))
                yield ClusterRow(of=of, name=named(wanted.experiment, '', sizes.point).replace('.', '', 1),
                                 size=round(sizes.median), centroid=centroid)


def _divided(study: Study, wanted: Clusters, cells: Sequence[Cell]) -> Iterator[ClusterRow]:
    """Divide the points that were measured on each side; fewer than k different ones are no groups."""
    from parity.study import laws  # scipy, which most commands do without
    columns = [chosen(cells, study.series(f'{wanted.here}.{name}')) for name in wanted.of_here]
    for side in study.axes[study.contrast].values:
        points = [c.point for c in columns[0] if c.point.get(study.contrast) == side]
        rows = [[c.median for column in columns for c in column if c.point == point and c.values]
                for point in points]
        with contextlib.suppress(ValueError):
            found = laws.clusters([row for row in rows if len(row) == len(columns)], wanted.k)
            for number, each in enumerate(found, 1):
                centroid, deviations = (dict(zip(wanted.of_here, values, strict=True))
                                        for values in (each.centroid, each.deviations))
                yield ClusterRow(of='here', size=each.size, centroid=centroid, deviations=deviations,
                                 name=f'{wanted.here} %{study.contrast}={side} %{wanted.each}={number}')


# ---- findings

def _judged(study: Study, finding: Finding, sources: Sequence[tuple[Of, Sequence[Cell], Comparison]],
            numbers: Sequence[NumberRow], left_out: Sequence[Cell]) -> Judged:
    words: dict[Of, tuple[Word, str]] = {}
    derived = study.number(finding.text)
    for of, cells, _ in sources:
        mine = [] if derived else chosen(cells, study.series(finding.text))
        parts = list(_number_parts(finding, [n for n in numbers if n.of == of]) if derived
                     else _KINDS[finding.kind](study, finding, of, mine))
        if of == 'here' and not parts:
            mine = mine or [c for text in _figures(study, finding) for of_them in (cells, left_out)
                            for c in chosen(of_them, study.series(text))]
            parts = [_Part(None, reason) for reason in dict.fromkeys(c.reason for c in mine if c.reason)] or [
                _Part(None, _unmeasured(study, finding))]
        words[of] = _word(parts)
    bounds = ' and '.join(f'{name.replace("_", " ")} {value:g}' for name, value in finding.bounds.items())
    more = (bounds, finding.along and f'along {finding.along}', finding.goes, finding.law,
            finding.within and f'within {100 * finding.within:g} %')
    word, why = words.get('here', ('', ''))
    return Judged(id=finding.id, says=finding.says, where=finding.where, kind=finding.kind,
                  statement=' '.join(filter(None, (finding.text, *more))), published=words['published'][0],
                  why_published=words['published'][1], here=word, why_here=why)


def _figures(study: Study, finding: Finding) -> list[str]:
    """Return the series of a finding, or of the number that it names, with the values of `over` that it names."""
    if not (derived := study.number(finding.text)):
        return [finding.text]
    named = dict(each.split('=', 1) for each in finding.text.split(' %')[1:])
    over = [[named[axis]] if axis in named else values for axis, values in derived.over.items()]
    return [filled(text, dict(zip(derived.over, values, strict=True))) for values in itertools.product(*over)
            for text in (derived.here or derived).let.values()]


def _unmeasured(study: Study, finding: Finding) -> str:
    """Say why no case of a finding was planned."""
    of = [study.experiments[study.series(text).experiment] for text in _figures(study, finding)]
    if not of or any(not experiment.check for experiment in of):
        return 'nothing here measures it'
    alike = study.number(finding.text) or any(not experiment.quick for experiment in of)
    return '--quick leaves it out' if alike else 'not measured'


def _word(parts: list[_Part]) -> tuple[Word, str]:
    """Return the word of all parts together: each that was measured must hold. Name the parts that decide, and
    those that were not measured."""
    if not parts:
        return 'not printed', ''
    if 0 < (absent := sum(part.absent for part in parts)) < len(parts):
        word, why = _word([part for part in parts if not part.absent])
        first = next(part.said for part in parts if part.absent)
        more = f'; and {absent - 1} more' if absent > 1 else ''
        return word, f'{why}; not measured ({absent} of {len(parts)}): {first}{more}'
    for state, word in ((False, 'does not hold'), (None, 'not testable'), (True, 'holds')):
        if deciding := [part.said for part in parts if part.holds is state]:
            more = f'; and {len(deciding) - 3} more' if len(deciding) > 3 else ''
            share = f' ({len(deciding)} of {len(parts)})' if len(deciding) < len(parts) else ''
            return word, '; '.join(deciding[:3]) + more + share
    raise AssertionError(parts)


def _inside(bounds: dict[str, float], low: float, high: float) -> bool | None:
    """Return whether an interval is wholly inside the bounds (True), wholly outside one (False), or straddles."""
    over, under = max(bounds.get('above', -math.inf), bounds.get('at_least', -math.inf)), \
        min(bounds.get('below', math.inf), bounds.get('at_most', math.inf))

    def fits(value: float) -> bool:
        return over <= value <= under and value not in (bounds.get('above'), bounds.get('below'))

    if fits(low) and fits(high):
        return True
    return False if not fits(low) and not fits(high) and (high <= over or low >= under) else None


def _ratio(of: Of, above: Cell, below: Cell, bounds: dict[str, float], name: str) -> _Part | None:
    """Judge a quotient; None where print has no such figures."""
    if not (above.values and below.values):
        missing = above if not above.values else below
        reason = missing.reason or (f'flagged: {missing.flagged[0][1]}' if missing.flagged else 'not measured')
        return _Part(None, f'{name}: {reason}', absent=True) if of == 'here' else None
    row = quotient(above, below)
    if row.ratio is None:
        return _Part(None, f'{name}: {row.reason}')
    if row.low is None or row.high is None:
        said = f'{name} {number(row.ratio)}'
        if of == 'published' and row.n == 1:
            return _Part(_inside(bounds, row.ratio, row.ratio), f'{said}, printed once: no interval')
        return _Part(None, f'{said}: {row.reason}')
    label = f' ({row.label})' if row.label else ''
    said = f'{name} {number(row.ratio)} [{number(row.low)}, {number(row.high)}]{label}'
    holds = _inside(bounds, row.low, row.high)
    return _Part(holds, said if holds is not None else f'{said} straddles: {_repeats(row, bounds)}')


def _repeats(row: Row, bounds: dict[str, float]) -> str:
    """Say how many runs of a side would end the straddling: an interval's width falls with their root."""
    far = min(abs(math.log(row.ratio / bound)) for bound in bounds.values() if bound > 0)
    half = math.log(row.high / row.low) / 2
    sessions = min(row.sessions_baseline, row.sessions_candidate)
    needed = max(2, math.ceil(sessions * (half / far) ** 2)) if far else math.inf
    return f'about {needed} repeats would tell' if needed <= 10_000 else 'no number of repeats would tell'


def _with(said: str, label: str) -> str:
    return f'{said} ({label})' if label else said


def _short(point: Point) -> str:
    return ' '.join(f'{axis} {value}' for axis, value in point.items())


def _ends(study: Study, finding: Finding, of: Of, cells: list[Cell]) -> Iterator[_Part]:
    """Judge the quotient of each two neighbours among a finding's ends, group by group."""
    ends = study.series(finding.text).ends
    for point, group in _grouped(cells, list(ends[0])).items():
        at = [next((c for c in group if {**c.point, **end} == c.point), None) for end in ends]
        for (one, other), (end, against) in zip(itertools.pairwise(at), itertools.pairwise(ends), strict=True):
            name = f'{_short(dict(point))} {",".join(end.values())}/{",".join(against.values())}'.strip()
            if one and other and (part := _ratio(of, one, other, _bounds(finding), name)):
                yield part


def _trend(study: Study, finding: Finding, of: Of, cells: list[Cell]) -> Iterator[_Part]:
    bounds = {'above': 1.0} if finding.goes == 'rising' else {'below': 1.0}
    for point, group in _grouped(cells, [finding.along]).items():
        for before, after in itertools.pairwise(_along(study, group, finding.along)):
            name = f'{_short(dict(point))} {after.point[finding.along]}/{before.point[finding.along]}'.strip()
            if part := _ratio(of, after, before, bounds, name):
                yield part


def _fit(study: Study, finding: Finding, of: Of, cells: list[Cell]) -> Iterator[_Part]:
    for point, group in _grouped(cells, [finding.along]).items():
        if any(c.values for c in group):
            row = fitted(study, of, _short(dict(point)), finding.law, group, finding.along)
            if row.low is None or row.high is None:
                yield _Part(None, f'{row.name}: {row.reason}')
            else:
                value = row.b if finding.law == 'power' else row.a
                said = f'{row.name} {number(value)} [{number(row.low)}, {number(row.high)}] {row.reason}'
                yield _Part(_inside(finding.bounds, row.low, row.high), _with(said.strip(), _labels(group)))


def _knee(study: Study, finding: Finding, of: Of, cells: list[Cell]) -> Iterator[_Part]:
    from parity.study import laws
    for point, group in _grouped(cells, [finding.along]).items():
        points = _along(study, group, finding.along)
        rates = [1 / c.median if c.better == 'lower' else c.median for c in points if c.median > 0]
        try:
            beyond = _beyond(finding, points)
            knee = laws.knee([numeric(c, finding.along) for c in points], rates) if points and not beyond else None
        except ValueError as err:
            yield _Part(None, f'{_short(dict(point))} {err}'.strip())
            continue
        if beyond:
            yield _Part(None, f'{_short(dict(point))} {beyond}'.strip())
        elif points:
            knee = math.inf if knee is None else knee
            said = f'{_short(dict(point))} knee at {knee:g}'.strip()
            yield _Part(_inside(finding.bounds, knee, knee), _with(said, _labels(points)))


def _beyond(finding: Finding, points: list[Cell]) -> str:
    """Say that no point lies beyond the bounds of a knee; '' where one does."""
    bound, most = max(finding.bounds.values()), max((numeric(c, finding.along) for c in points), default=math.inf)
    return f'knee at {bound:g}: {most:g} {finding.along}' if most < bound else ''


def _variation(study: Study, finding: Finding, of: Of, cells: list[Cell]) -> Iterator[_Part]:
    """Judge the quotient of two coefficients of variation, group by group."""
    from parity.study import laws
    ends = study.series(finding.text).ends
    for point, group in _grouped(cells, list(ends[0])).items():
        sides = [[c for c in group if {**c.point, **end} == c.point] for end in ends]
        above, below = ([v.value for c in side for v in c.values] for side in sides)
        name = f'{_short(dict(point))} {"/".join(",".join(end.values()) for end in ends)}'.strip()
        if not (above and below) and of == 'published':
            continue
        try:
            found = laws.variation(above, below)
        except ValueError as err:
            yield _Part(None, f'{name}: {err}')
            continue
        said = f'{name} {number(found.ratio)} [{number(found.low)}, {number(found.high)}]'
        yield _Part(_inside(finding.bounds, found.low, found.high), _with(said, _labels(sides[0] + sides[1])))


def _count(_: Study, finding: Finding, of: Of, cells: list[Cell]) -> Iterator[_Part]:
    if values := [v.value for c in cells for v in c.values]:
        total = sum(values)
        yield _Part(_inside(finding.bounds, total, total), f'{total:g} in {len(values)} runs')


def _number_parts(finding: Finding, numbers: list[NumberRow]) -> Iterator[_Part]:
    for row in numbers:
        if {*finding.text.split(' %')} <= {*row.name.split(' %')} and row.value is not None:
            low, high = (row.value, row.value) if row.low is None or row.high is None else (row.low, row.high)
            over = ' '.join(row.name.split(' %')[1:]).replace('=', ' ')
            limits = ', without an interval' if row.low is None else f' [{number(low)}, {number(high)}]'
            said = f'{over} {number(row.value)}{limits}'.strip()
            yield _Part(_inside(_bounds(finding), low, high), _with(said, row.label))


def _bounds(finding: Finding) -> dict[str, float]:
    if finding.kind == 'order':
        return {'below': 1.0}
    if finding.within:
        return {'at_least': 1 - finding.within, 'at_most': 1 + finding.within}
    return finding.bounds


_KINDS: dict[str, Callable[[Study, Finding, Of, list[Cell]], Iterator[_Part]]] = {
    'ratio': _ends, 'equal': _ends, 'order': _ends, 'trend': _trend, 'fit': _fit, 'knee': _knee,
    'count': _count, 'variation': _variation}
