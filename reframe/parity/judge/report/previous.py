"""Facts beside the verdict on its page: the session before, the last nights, curves, nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from parity.base.errors import ParityError
from parity.judge.store import database, plan_file
from parity.judge.store.record import Session
from parity.site import systems

if TYPE_CHECKING:
    from parity.judge.report.drawings import Drawing, Plot, PlotLine
    from parity.judge.report.nights import NightHistory
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


def of_session(verdict: Verdict) -> Previous:
    """Read from ReFrame's database what belongs to the verdict's session.

    Raises InfrastructureError where the database cannot be read."""
    # Here and not above: a nightly does not need polars to start.
    import polars as pl

    from parity.judge.nodes.figures import speeds
    from parity.judge.report import drawings, nights, scaling
    from parity.judge.store import changes, history
    from parity.judge.verdict import judge, states
    session = database.read(verdict.session.uuid)
    earlier, judged, unreadable = before(session, verdict.session.system), None, ''
    try:
        earlier = earlier and database.read(earlier.uuid)
        judged = earlier and judge.judged(earlier)
    except ParityError as err:          # an older parity stored it: tonight's page does not need it
        earlier, unreadable = None, str(err)
    system, until = verdict.session.system, database.starts()[session.uuid]
    stored = [night for night in database.sessions(system)
              if not night.rerun_of and (night.start < until or night.uuid == session.uuid)][-nights.NIGHTS:]
    known = [(night.uuid, night.start) for night in stored]
    recent = history.load(system, labelled=True).filter(pl.col('session').is_in([uuid for uuid, _ in known]))
    absent = history.rows(uuid for uuid, _ in known).filter(pl.col('value').is_null(), system=system).collect()
    past = nights.of_recent(recent, known, states.words(system), absent)
    for node in systems.gone(systems.read(system), session.start):
        past.nodes.pop(node, None)
    return Previous(
        before=judged, unreadable=unreadable,
        differences=differences(earlier, session) if earlier else [],
        nights=past,
        plots=drawings.of_sessions(session, earlier),
        scaling=scaling.drawn(session.uuid, verdict.cells),
        facts=session,
        changes={environ: changes.steps(stored, environ) for environ in {cell.environ for cell in verdict.cells}},
        speeds=speeds(recent))


def before(session: Session, system: str) -> Session | None:
    """Return the newest earlier session of ``system`` with the same selection, without its runs.

    The selection is the same where the plans are, or the options that select: a check that was added
    since yesterday does not make yesterday another thing."""
    known = database.uuids()
    until = known.index(session.uuid) if session.uuid in known else len(known)
    chosen = plan_file.of_arguments(plan_file.words(session.cmdline))
    for other in filter(None, map(database.brief, reversed(known[:until][-FURTHEST:]))):
        if other.system == system and other.cases and not other.rerun_of and (
                other.cases == session.cases or plan_file.of_arguments(plan_file.words(other.cmdline)) == chosen):
            return other
    return None


def differences(before: Session, now: Session) -> list[str]:
    """Return a line for each fact of nodes, machine and software that changed, as `parity show` words it."""
    from parity.judge.store import changes
    found = (change for environ in now.facts.get('software') or ['']
             for change in changes.between([before, now], now.start, before.start, environ))
    return list(dict.fromkeys(map(str, found)))
