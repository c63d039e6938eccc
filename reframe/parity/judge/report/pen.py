"""The curves of a page's rows: their nights, with levels and incidents, and the labels of their axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from parity.base import figures, times
from parity.judge.report import curves
from parity.judge.report.curves import JudgedNights, NightCurve, Scale, Span
from parity.judge.report.nights import NightHistory
from parity.judge.report.previous import Previous
from parity.judge.store.incidents import Incident

if TYPE_CHECKING:
    from parity.judge.report.page import PageRow

#: Steps of a curve's height: beside its text, and on a figure's own page.
LOW, TALL = 100, 1000


class Pen:
    """Draws the nights of rows: it knows when each night began, and the incidents of each cell."""

    def __init__(self, incidents: Sequence[Incident], previous: Previous):
        history = previous.nights or NightHistory()
        self._starts = [start for start, _ in history.labels]
        self._spans: dict[str, list[Span]] = {}
        if not self._starts:
            return
        of_system = [*previous.incidents, *incidents]
        newest = {incident.number: incident for incident in of_system}
        for incident in newest.values():
            self._add(incident)

    def _add(self, incident: Incident) -> None:
        """Add the nights of an incident to its cells; none where it was over before all nights."""
        last = len(self._starts) - 1
        if incident.closed:
            last = self._night_of(incident.closed.start) - 1
        first = self._night_of(incident.begin or incident.since)
        if first > last:
            return
        span = Span(first, last, f'incident {incident.number}: {incident.title}')
        for name in incident.cells:
            self._spans.setdefault(name, []).append(span)

    def _night_of(self, unix: float) -> int:
        """Return the first night that began then or later, else the last one."""
        minute = times.minute(unix)
        for night, start in enumerate(self._starts):
            if start >= minute:
                return night
        return len(self._starts) - 1

    def _nights(self, row: PageRow | None) -> JudgedNights | None:
        judged = row.judged_nights if row else None
        if judged is None:
            return None
        spans = self._spans.get(row.name, ())
        cell = row.cell
        if cell.level is None or not cell.begin:
            return judged._replace(spans=spans)
        begin = self._night_of(cell.begin)
        return judged._replace(spans=spans, level=cell.level, begin=begin)

    def tall(self, row: PageRow) -> NightCurve | None:
        """Return the curve of a figure's own page, in its unit; None where fewer than two nights have a figure."""
        judged = self._nights(row)
        return curves.drawn(judged, TALL) if judged else None

    def on_one_scale(self, rows: Sequence[PageRow | None]) -> list[NightCurve | None]:
        """Return the curves of rows in per cent of what is expected, all on one scale."""
        nights = [self._nights(row) for row in rows]
        shares = [judged.in_per_cent() for judged in nights if judged and judged.base]
        scale = curves.shared(shares) if shares else None
        drawn = []
        for row, judged in zip(rows, nights, strict=True):
            curve = self._labelled(row, judged, scale) if row and judged else None
            drawn.append(curve)
        return drawn

    def _labelled(self, row: PageRow, judged: JudgedNights, scale: Scale | None) -> NightCurve:
        unit = row.cell.unit
        base = judged.base
        curve = curves.drawn(judged.in_per_cent(), LOW, scale if base else None)

        def label(value: float) -> str:
            if base and value:
                return f'{value:+g} %'
            return figures.figure(base or value, unit)

        tonight = ''
        if row.cell.value is not None:
            tonight = f'{row.value} {row.unit}'.strip()
        return curves.labelled(curve, self._starts, tonight, row.span, label)
