"""What stands beside the verdict on its page: the session before, the last nights, curves, nodes, pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity.base.errors import ParityError
from parity.report.ratios import Pair

if TYPE_CHECKING:
    from parity.records.record import Session
    from parity.report.curves import Plot
    from parity.report.facts import Difference
    from parity.report.series import Nights
    from parity.verdict.model import Verdict


@dataclass
class Beside:
    """None and empty where nothing is known: the page then says so, or leaves it out."""

    before: Verdict | None = None                    # the session before, judged
    unreadable: str = ''                             # why that cannot be told
    differences: list[Difference] = field(default_factory=list)
    nights: Nights | None = None
    plots: list[Plot] = field(default_factory=list)
    facts: Session | None = None
    speeds: dict[str, tuple[float, int]] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)


def of_session(verdict: Verdict) -> Beside:
    """Read from ReFrame's database what belongs to the verdict's session. Raises InfrastructureError where the
    database cannot be read."""
    # Here and not above: these load polars, and a page may be asked for without any of it.
    from parity.records import database, history, kept
    from parity.report import curves, earlier, facts, nodes, series
    from parity.verdict import judge
    session = kept.read(verdict.session.uuid)
    before, judged, unreadable = earlier.before(session, verdict.session.system), None, ''
    try:
        before = before and kept.read(before.uuid)
        judged = before and judge.judged(before)
    except ParityError as err:          # one that an older parity stored: tonight's page does not need it
        before, unreadable = None, str(err)
    frame = history.load(verdict.session.system)
    recent = series.recent(frame, verdict.session.uuid, database.starts()[verdict.session.uuid])
    return Beside(
        before=judged, unreadable=unreadable,
        differences=facts.differences(before, session) if before else [],
        nights=series.of_recent(recent),
        plots=curves.of_sessions(session, before),
        facts=session,
        speeds=nodes.speeds(recent),
        pairs=_pairs(verdict) if verdict.pairs else [])


def _pairs(verdict: Verdict) -> list[Pair]:
    """All metrics of the declared pairs of which the session has measured something."""
    from parity.compare import expected
    from parity.report import ratios
    return [ratios.of_comparison(expected.marked(expected.of_partitions(both, verdict.session.uuid)))
            for both in dict.fromkeys((o.baseline, o.candidate) for o in verdict.pairs)]

