"""Facts beside the verdict on its page: the session before, the last nights, curves, nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from parity.base.errors import ParityError
from parity.judge.store import database, plan_file
from parity.judge.store.record import Session
from parity.site import systems

if TYPE_CHECKING:
    from parity.judge.report.drawings import Drawing, Plot, PlotLine
    from parity.judge.report.nights import NightHistory
    from parity.judge.store.incidents import Incident
    from parity.judge.verdict.model import Change, Verdict

#: Sessions that are searched for the one before: a month of nights, with a few runs by hand.
FURTHEST = 40


@dataclass
class Previous:
    """None and empty where nothing is known: the page then says so, or leaves it out."""

    before: Verdict | None = None                    # the session before, judged
    unreadable: str = ''                             # why that cannot be told
    differences: list[str] = field(default_factory=list)
    nights: NightHistory | None = None
    plots: dict[Plot, list[PlotLine]] = field(default_factory=dict)
    scaling: list[Drawing] = field(default_factory=list)
    facts: Session | None = None
    changes: dict[str, list[Change]] = field(default_factory=dict)       # in the last nights, by environment
    speeds: dict[str, tuple[float, int]] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)              # of the system, those that are over, too


def of_session(verdict: Verdict) -> Previous:
    """Read from ReFrame's database what belongs to the verdict's session.

    Raises InfrastructureError where the database cannot be read."""
    # Here and not above: a nightly does not need polars to start.
    import polars as pl

    from parity.judge.nodes.figures import speeds
    from parity.judge.report import drawings, nights, scaling
    from parity.judge.store import changes, history, incidents
    from parity.judge.verdict import judge, states
    system = verdict.session.system
    session = database.read(verdict.session.uuid)
    earlier = before(session, system)
    judged = None
    unreadable = ''
    if earlier:
        try:
            earlier = database.read(earlier.uuid)
            judged = judge.judged(earlier)
        except ParityError as err:          # an older parity stored it: tonight's page does not need it
            earlier = None
            unreadable = str(err)
    stored = _nights(session, system)[-nights.NIGHTS:]
    starts = {night.uuid: night.start for night in stored}
    recent = history.load(system, labelled=True).filter(pl.col('session').is_in(list(starts)))
    absent = history.rows(starts).filter(pl.col('value').is_null(), system=system).collect()
    past = nights.of_recent(recent, list(starts.items()), states.words(system), absent)
    for node in systems.gone(systems.read(system), session.start):
        past.nodes.pop(node, None)
    environs = {cell.environ for cell in verdict.cells}
    begun = [incident for incident in incidents.of_system(system) if incident.opened.start <= session.start + 1]
    return Previous(
        before=judged,
        unreadable=unreadable,
        differences=differences(earlier, session) if earlier else [],
        nights=past,
        plots=drawings.of_sessions(session, earlier),
        scaling=scaling.drawn(session.uuid, verdict.cells),
        facts=session,
        changes={environ: changes.steps(stored, environ) for environ in environs},
        speeds=speeds(recent),
        incidents=begun)


def _nights(session: Session, system: str) -> list[Session]:
    """Return the nights of a system up to the session, which may be a rerun."""
    until = database.starts()[session.uuid]
    nights = []
    for night in database.sessions(system):
        if night.rerun_of:
            continue
        if night.start < until or night.uuid == session.uuid:
            nights.append(night)
    return nights


def before(session: Session, system: str) -> Session | None:
    """Return the newest earlier session of ``system`` with the same selection, without its runs.

    The selection is the same where the plans are, or the options that select: a check that was added
    since yesterday does not make yesterday another thing."""
    uuids = database.uuids()
    if session.uuid in uuids:
        uuids = uuids[:uuids.index(session.uuid)]
    chosen = _selection(session)
    for uuid in reversed(uuids[-FURTHEST:]):
        other = database.brief(uuid)
        if not other or other.system != system or not other.cases or other.rerun_of:
            continue
        if other.cases == session.cases or _selection(other) == chosen:
            return other
    return None


def _selection(session: Session) -> Any:
    """Return the options of its command line that select cases."""
    return plan_file.of_arguments(plan_file.words(session.cmdline))


def differences(before: Session, now: Session) -> list[str]:
    """Return a line for each fact of nodes, machine and software that changed, as `parity show` words it."""
    from parity.judge.store import changes
    lines: dict[str, None] = {}
    for environ in now.facts.get('software') or ['']:
        for change in changes.between([before, now], now.start, before.start, environ):
            lines[str(change)] = None
    return list(lines)
