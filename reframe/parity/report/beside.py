"""What stands beside the verdict on its page: the session before, the last nights, curves, nodes, pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity.report.ratios import Pair

if TYPE_CHECKING:
    from parity.history import SessionFacts
    from parity.report.curves import Plot
    from parity.report.difference import Difference
    from parity.report.series import Nights
    from parity.verdict.model import Verdict


@dataclass
class Beside:
    """None and empty where nothing is known: the page then says so, or leaves it out."""

    before: Verdict | None = None                    # the session before, judged
    differences: list[Difference] = field(default_factory=list)
    nights: Nights | None = None
    plots: list[Plot] = field(default_factory=list)
    facts: SessionFacts | None = None
    speeds: dict[str, tuple[float, int]] = field(default_factory=dict)
    pairs: Sequence[Pair] = ()


def of_session(verdict: Verdict, pairs: Sequence[Pair] = ()) -> Beside:
    """Read from ReFrame's database what belongs to the verdict's session."""
    # Here and not above: these load polars, and a page may be asked for without any of it.
    from parity import history
    from parity.history.facts import of_report
    from parity.report import curves, difference, earlier, nodes, series
    from parity.session import database
    from parity.verdict import judge
    report = database.report(verdict.session.uuid)
    before = earlier.before(report, verdict.session.system)
    facts = of_report(report)
    recent = series.recent(history.load(verdict.session.system), verdict.session.uuid,
                           report['session_info']['time_start_unix'])
    return Beside(
        before=judge.of_report(before) if before else None,
        differences=difference.of_sessions(of_report(before), facts) if before else [],
        nights=series.of_recent(recent),
        plots=curves.of_reports(report, before),
        facts=facts,
        speeds=nodes.speeds(recent),
        pairs=pairs)
