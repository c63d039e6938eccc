"""The page of a comparison: its answer, a forest plot by subsystem, and the curves of both sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from parity import __version__
from parity.base import times
from parity.base.groups import grouped
from parity.base.text import brief
from parity.judge.compare import terminal
from parity.judge.compare.model import Comparison, Measured, Row, Side, Value
from parity.judge.compare.sentence import short_names
from parity.judge.report import drawings, forest
from parity.judge.report.drawings import Drawing, Plot, PlotLine
from parity.judge.report.templates import template
from parity.judge.store import database

#: Curves of one kind on a page.
_MOST = 60
#: Fewer sessions of both sides are no curve.
_FEWEST = 2


def page(c: Comparison) -> str:
    """Return the page. It has no script, and all that it prints is escaped."""
    head = terminal.head(c)
    notes = terminal.footnotes(c)
    means = [terminal.mean(mean) for mean in c.means]
    names = short_names(c.baseline.name, c.candidate.name)
    plot = forest.of_comparison(c)
    without = [row for row in c.rows if row.ratio is None]
    sizes = list(_sizes(c))
    nights = list(_nights(c))
    comparison = template('comparison.html.j2', drawings=drawings)
    return comparison.render(
        c=c, head=head, notes=notes, means=means, names=names, plot=plot, without=without, sizes=sizes[:_MOST],
        nights=nights[:_MOST], left_out=len(nights[_MOST:]), version=__version__)


# ---- night by night

def _nights(c: Comparison) -> Iterator[Drawing]:
    """Yield a drawing for each ratio with sessions enough, the worst first."""
    ones = _cells(c.baseline)
    others = _cells(c.candidate)
    for row, _ in forest.worst_first(c):
        key = row.benchmark, row.metric
        if row.against or key not in ones or key not in others:
            continue
        drawing = _of_sides(c, row, ones[key], others[key])
        if drawing:
            yield drawing


def _cells(side: Side) -> dict[tuple[str, str], Measured]:
    """Return the cells with values by case and metric. Of several environments or places, the first counts."""
    cells: dict[tuple[str, str], Measured] = {}
    for cell in side.cells:
        if cell.values:
            cells.setdefault((cell.case, cell.metric), cell)
    return cells


def _of_sides(c: Comparison, row: Row, one: Measured, other: Measured) -> Drawing | None:
    sessions = _in_order([*one.values, *other.values])
    if len(sessions) < _FEWEST:
        return None
    labels = []
    order = {}
    for place, (session, value) in enumerate(sessions.items()):
        labels.append(_label(value))
        order[session] = float(place)
    plot = Plot(row.subsystem, row.benchmark, 'session', '', row.metric, row.unit, row.better, tuple(labels))
    baseline = _line(c.baseline.name, one, order)
    candidate = _line(c.candidate.name, other, order)
    return drawings.draw(plot, [baseline, candidate])


def _in_order(values: Sequence[Value]) -> dict[str, Value]:
    """Return the first run of each session, the oldest session first."""
    first: dict[str, Value] = {}
    for value in sorted(values, key=lambda value: value.when or 0.0):
        first.setdefault(value.session, value)
    return first


def _label(value: Value) -> str:
    if value.when:
        return times.day(value.when)[5:]
    return brief(value.session, 8)


def _line(name: str, cell: Measured, order: dict[str, float]) -> PlotLine:
    """Return the medians of a side's sessions; a single one is a point."""
    by_place = grouped(cell.values, lambda value: order[value.session])
    points = {}
    for place in sorted(by_place):
        points[place] = median(value.value for value in by_place[place])
    limits = {} if len(points) == 1 else None
    return PlotLine(name, points, limits=limits)


# ---- over message sizes and along parameters

def _sizes(c: Comparison) -> Iterator[Drawing]:
    """Yield the curves of both sides' newest sessions that both have."""
    ones, others = _curves(c.baseline), _curves(c.candidate)
    for plot, one in ones.items():
        if plot in others:
            drawing = drawings.draw(plot, [one, others[plot]])
            if drawing:
                yield drawing


def _curves(side: Side) -> dict[Plot, PlotLine]:
    """Return the curve of each plot that the side's newest session has; none of a file."""
    if side.kind not in ('partition', 'session') or not side.sessions:
        return {}
    places = {place.partition(':')[2] for place in side.places}
    with side.where():
        newest = database.read(side.sessions[-1])
        plots = drawings.of_sessions(newest, None)
    curves = {}
    for plot, lines in plots.items():
        for line in lines:
            place, _, _ = line.name.partition('+')
            if place in places:
                curves[plot] = line._replace(name=side.name)
                break
    return curves
