"""Facts beside the verdict on its page: the session before, the last nights, curves, nodes, pairs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from parity.base import text
from parity.base.errors import ParityError
from parity.records import database, outset
from parity.records.record import Session

if TYPE_CHECKING:
    from parity.report.drawings import Pair, Plot
    from parity.report.nights import Nights
    from parity.verdict.model import Verdict

#: Sessions that are searched for the one before: a month of nights, with a few runs by hand.
FURTHEST = 40


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
    """Read from ReFrame's database what belongs to the verdict's session.

    Raises InfrastructureError where the database cannot be read."""
    # Here and not above: these load polars, which a nightly does not need to start.
    from parity.compare import join
    from parity.records import history
    from parity.report import drawings, nights
    from parity.verdict import judge
    session = database.read(verdict.session.uuid)
    earlier, judged, unreadable = before(session, verdict.session.system), None, ''
    try:
        earlier = earlier and database.read(earlier.uuid)
        judged = earlier and judge.judged(earlier)
    except ParityError as err:          # an older parity stored it: tonight's page does not need it
        earlier, unreadable = None, str(err)
    frame = history.load(verdict.session.system)
    recent = nights.recent(frame, verdict.session.uuid, database.starts()[verdict.session.uuid])
    return Beside(
        before=judged, unreadable=unreadable,
        differences=differences(earlier, session) if earlier else [],
        nights=nights.of_recent(recent),
        plots=drawings.of_sessions(session, earlier),
        facts=session,
        speeds=nights.speeds(recent),
        pairs=[drawings.of_comparison(join.marked(join.of_partitions(both, verdict.session.uuid)))
               for both in dict.fromkeys((o.baseline, o.candidate) for o in verdict.pairs)])


def before(session: Session, system: str) -> Session | None:
    """Return the newest earlier session of ``system`` with the same selection, without its runs.

    The selection is the same where the plans are, or the options that select: a check that was added
    since yesterday does not make yesterday another thing."""
    known = database.uuids()
    until = known.index(session.uuid) if session.uuid in known else len(known)
    return newest(known[:until], system, outset.words(session.cmdline), session.cases)


def newest(known: list[str], system: str, arguments: list[str], cases: str = '') -> Session | None:
    """Return the newest session among ``known`` that ran on ``system`` what these arguments of reframe select, or
    these ``cases``."""
    chosen = outset.of_arguments(arguments)
    for other in filter(None, map(database.brief, reversed(known[-FURTHEST:]))):
        if other.system == system and other.cases and not other.rerun_of and (
                other.cases == cases or outset.of_arguments(outset.words(other.cmdline)) == chosen):
            return other
    return None


# ---- the facts that differ

#: Facts that differ every time and tell nothing.
_RESTLESS = ('memory_available_bytes', 'quota_bytes', 'free_bytes')


class Difference(NamedTuple):
    """A fact that changed. ``nodes`` are those that state it, [] for the machine."""

    fact: str
    before: str
    now: str
    nodes: list[str]


def differences(before: Session, now: Session) -> list[Difference]:
    """Return the changes of nodes, each once with all of its nodes; then those of machine and software."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for node in sorted(before.nodes.keys() & now.nodes.keys()):
        for change in _differing(before.nodes[node], now.nodes[node]):
            found.setdefault(change, []).append(node)
    return [*(Difference(*change, nodes) for change, nodes in found.items()),
            *(Difference(*change, []) for change in _differing(_of_session(before), _of_session(now)))]


def _of_session(session: Session) -> dict[str, Any]:
    return {'nodes': ' '.join(sorted(session.nodes)), **session.facts, 'throttled': session.throttled,
            'ReFrame': session.reframe, 'options': ' '.join(session.cmdline.split()[1:])}


def _differing(before: dict[str, Any], now: dict[str, Any]) -> list[tuple[str, str, str]]:
    old, new = dict(_flat(before)), dict(_flat(now))
    pairs = {fact: (old.get(fact, ''), new.get(fact, '')) for fact in old | new}
    return [(fact, *pair) for fact, pair in pairs.items() if pair[0] != pair[1]]


def _flat(value: Any, path: str = '') -> list[tuple[str, str]]:
    """Return (path, text) of everything below; a list is one text."""
    if isinstance(value, dict):
        return [pair for name, inner in value.items() if str(name) not in _RESTLESS
                for pair in _flat(inner, f'{path} {name}'.strip())]
    said = ', '.join(map(str, value)) if isinstance(value, list) else '' if value is None else str(value)
    return [(text.brief(path.replace('_', ' '), 200), text.brief(said, 200))]
