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
from parity.cause.factorial import as_log
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
    slowdown = as_log(part)
    experiment = _as_slow_as(experiment, slowdown)
    root = _root(experiment, needs)
    before, now = _builds(experiment)
    packages_before = mixed.packages(before, root)
    packages_now = mixed.packages(now, root)
    left = mixed.changes(packages_before, packages_now)
    if not left:
        raise NothingMeasured('the locks of both builds have the same packages below this code: '
                              'look at its modules and settings (parity show INCIDENT)')
    shares: dict[tuple[Swap, ...], float] = {}
    halvings = math.ceil(math.log2(len(left)))
    most = halvings + 1
    seconds = 0.0
    while len(left) > 1 or tuple(left) not in shares:
        count = max(1, len(left) // 2)
        half = tuple(left[:count])
        _announce(half, len(shares) + 1, most, seconds)
        began = time.monotonic()
        names = [name for change in half for name in change.names]
        spec = mixed.spec_of(root, packages_before, packages_now, names)
        view = mixed.made(experiment.system.name, experiment.key, now, spec, root)
        shares[half] = _slower(experiment, view)
        took = time.monotonic() - began
        seconds = max(seconds, took)
        is_blamed = as_log(shares[half]) >= slowdown / 2
        if is_blamed:
            left = [*half]
        elif len(left) == 1:
            raise NothingMeasured(f'no single package: {left[0].text} alone is not slow: the changes act jointly')
        else:
            left = [change for change in left if change not in half]
    share = shares[tuple(left)]
    is_all = as_log(share) >= _ALL * slowdown
    how = 'all of it' if is_all else f'{100 * share:.1f} % of {100 * part:.1f} %'
    return f'{left[0].text}: {how}'


def _as_slow_as(experiment: Trial, slowdown: float) -> Trial:
    """Return the experiment with its cells slower by a logarithm, in the same proportions."""
    factor = slowdown / as_log(experiment.loss)
    cells = [replace(cell, slower=cell.slower * factor) for cell in experiment.cells]
    return replace(experiment, cells=cells)


def needs_of(incident: Incident, case: str) -> list[str]:
    """Return the features that a case needs, as the night planned it that opened the incident."""
    session = database.read(incident.opened.session)
    for planned in session.plan.get('cases', ()):
        if planned['case'] == case:
            return planned['needs']
    return []


def _root(experiment: Trial, needs: Sequence[str]) -> str:
    """Return the package that Spack builds for the case."""
    for code in codes.every():
        if code.spack and code.feature in needs:
            return code.spack_package
    cell = experiment.cells[0]
    raise UsageError(f'{cell.name}: no package of Spack runs it; leave --packages out')


def _builds(experiment: Trial) -> tuple[Path, Path]:
    """Return the builds of the earlier software and of tonight's."""
    sides = [side for side in (experiment.before, experiment.now) if side]
    of_spack = [side for side in sides if 'packages' in side.facts]
    if len(of_spack) < 2:
        labels = ' and '.join([side.label for side in sides])
        raise UsageError(f'{labels}: Spack built neither, so that no lock has their packages; alternatives in '
                         'system.yaml are compared by parity cause CASE --environ A --environ B')
    before, now = of_spack
    return earlier.build_of(before.facts), earlier.build_of(now.facts)


def _announce(half: Sequence[Swap], number: int, most: int, seconds: float) -> None:
    swaps = '; '.join([swap.text for swap in half])
    left = ''
    if seconds > 1:
        builds_left = most - number + 1
        time_left = duration(builds_left * seconds)
        left = f'; about {time_left} left at most'
    console.say(f'parity: build {number} of at most {most}: with {swaps}; the rest as before{left}')


def _slower(experiment: Trial, view) -> float:
    """Return by what share a view is slower than the earlier software, on a sound node."""
    facts = mixed.facts(view, experiment.before.facts)
    digest = hashlib.sha256(view.view.encode()).hexdigest()
    number = digest[:8]
    software = TurnSoftware(
        environ=experiment.now.environ,
        label=f'mixed {number[:4]}',
        facts=facts,
        restored=True)
    sound = experiment.peer or experiment.node
    one = replace(experiment, key=f'{experiment.key}-{number}', node=sound, peer=(), now=software)
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
