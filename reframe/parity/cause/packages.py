"""The package to blame: bisection of what differs between the locks of two builds, by builds and experiments.

A build has a half of the changed packages as tonight, the rest as before. It takes turns with the earlier
software. What was built and measured is not done again, so that the same command goes on."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from parity.base import codes, console
from parity.base.errors import NothingMeasured, UsageError
from parity.base.figures import counted, duration
from parity.cause import experiment as experiments
from parity.cause.experiment import Trial, TurnSoftware
from parity.judge.store import database
from parity.judge.store.incidents import Incident
from parity.measure.software import earlier, mixed
from parity.measure.software.mixed import Swap

#: A package takes all of a slowdown where it takes so much.
_ALL = 0.8


def guilty(experiment: Trial, needs: Sequence[str], part: float) -> str:
    """Return the package that slows the experiment's cells down, in words. ``needs``: features of its case.
    ``part``: the share by which the software is slower.

    UsageError where no two builds of Spack are compared, NothingMeasured where no single package is to blame."""
    slowdown = math.log1p(-part)
    experiment = _as_slow_as(experiment, slowdown)
    root, (before, now) = _root(experiment, needs), _builds(experiment)
    packages_before, packages_now = mixed.packages(before, root), mixed.packages(now, root)
    left = mixed.changes(packages_before, packages_now)
    if not left:
        raise NothingMeasured('the locks of both builds have the same packages below this code: '
                              'look at its modules and settings (parity show INCIDENT)')
    shares: dict[tuple[Swap, ...], float] = {}
    most, seconds = math.ceil(math.log2(len(left))) + 1, 0.0
    while len(left) > 1 or tuple(left) not in shares:
        half = tuple(left[:max(1, len(left) // 2)])
        _announce(half, len(shares) + 1, most, seconds)
        began = time.monotonic()
        names = [name for change in half for name in change.names]
        spec = mixed.spec_of(root, packages_before, packages_now, names)
        view = mixed.made(experiment.system.name, experiment.key, now, spec, root)
        shares[half] = _slower(experiment, view)
        seconds = max(seconds, time.monotonic() - began)
        blamed = math.log1p(-shares[half]) <= slowdown / 2
        if blamed:
            left = [*half]
        elif len(left) == 1:
            raise NothingMeasured(f'no single package: {left[0].text} alone is not slow: the changes act jointly')
        else:
            left = [change for change in left if change not in half]
    share = shares[tuple(left)]
    whole = math.log1p(-share) <= _ALL * slowdown
    how = 'all of it' if whole else f'{100 * share:.1f} % of {100 * part:.1f} %'
    return f'{left[0].text}: {how}'


def _as_slow_as(experiment: Trial, slowdown: float) -> Trial:
    """Return the experiment with its cells slower by a logarithm, in the same proportions."""
    factor = slowdown / math.log1p(-experiment.loss)
    return replace(experiment, cells=[replace(cell, slower=cell.slower * factor) for cell in experiment.cells])


def needs_of(incident: Incident, case: str) -> list[str]:
    """Return the features that a case needs, as the night planned it that opened the incident."""
    plan = database.read(incident.opened.session).plan
    return next((one['needs'] for one in plan.get('cases', ()) if one['case'] == case), [])


def _root(experiment: Trial, needs: Sequence[str]) -> str:
    """Return the package that Spack builds for the case."""
    of_spack = [code.spack_package for code in codes.every() if code.feature in needs and code.spack]
    if not of_spack:
        raise UsageError(f'{experiment.cells[0].name}: no package of Spack runs it; leave --packages out')
    return of_spack[0]


def _builds(experiment: Trial) -> tuple[Path, Path]:
    """Return the builds of the earlier software and of tonight's."""
    sides = (experiment.before, experiment.now)
    if any(side is None or 'packages' not in side.facts for side in sides):
        labels = ' and '.join(side.label for side in sides if side)
        raise UsageError(f'{labels}: Spack built neither, so that no lock has their packages; alternatives in '
                         'system.yaml are compared by parity cause CASE --environ A --environ B')
    return tuple(earlier.build_of(side.facts) for side in sides)


def _announce(half: Sequence[Swap], number: int, most: int, seconds: float) -> None:
    swaps = '; '.join(swap.text for swap in half)
    left = ''
    if seconds > 1:
        builds_left = most - number + 1
        left = f'; about {duration(builds_left * seconds)} left at most'
    console.say(f'parity: build {number} of at most {most}: with {swaps}; the rest as before{left}')


def _slower(experiment: Trial, view) -> float:
    """Return by what share a view is slower than the earlier software, on a sound node."""
    facts = mixed.facts(view, experiment.before.facts)
    number = hashlib.sha256(view.view.encode()).hexdigest()[:8]
    software = TurnSoftware(experiment.now.environ, f'mixed {number[:4]}', '', facts, restored=True)
    one = replace(experiment, key=f'{experiment.key}-{number}', node=experiment.peer or experiment.node, peer=(),
                  now=software)
    measured = experiments.outcome(one)
    if measured:
        share, *_ = measured
        console.say(f'parity: it was measured before: {100 * share:.1f} % slower')
        return share
    decision = experiments.run(one).decision
    if decision.word == 'not decided':
        raise NothingMeasured(f'{counted(decision.more, "round")} more would be needed to tell it: '
                              'cause: {node_hours: ...} in system.yaml allows more')
    share = decision.software.share
    console.say(f'parity: {100 * share:.1f} % slower than {experiment.before.label}')
    return share
