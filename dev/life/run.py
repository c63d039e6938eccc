"""One life: every night is measured, judged, run again where it is suspicious, recorded; an operator acts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from dev.life import faults
from dev.life.faults import Fault
from dev.life.site import Incident, Site, Verdict
from dev.life.world import World

#: Nights after which the operator accepts values for half of the cells, and the first fault begins.
ACCEPTED, BEGIN = 30, 36
_LITTLE = 12, 16
#: Seconds of a session, and of each that confirms it.
_SECONDS, _AGAIN = 3 * 3600.0, 900.0
_ACK_DAYS = 120


@dataclass
class Night:
    """The truth of a night, and the product's view. ``hit``: by cell, the share that each fault took.

    ``words``: of the cells that are not in order; ``red``: those without an acknowledgement."""

    start: float
    exit_code: int
    hit: dict[str, dict[int, float]]
    words: dict[str, str]
    red: set[str]
    states: dict[str, str]
    reasons: dict[str, str]
    incidents: dict[int, Incident]
    ran_on: dict[str, list[str]]
    session: str
    reruns: int
    mail: str = ''                   # the notice of the night


@dataclass
class Life:
    """All nights of a life, the faults that were planted, and the incidents that the operator acknowledged."""

    seed: int
    faults: list[Fault]
    sd: dict[str, float]
    nights: list[Night] = field(default_factory=list)
    acked: dict[int, int] = field(default_factory=dict)     # number -> night
    cpu: float = 0.0
    judging: float = 0.0
    last: float = 0.0               # CPU seconds of the last night's verdict

    @property
    def months(self) -> float:
        return len(self.nights) / 30


def apart(seeds: Sequence[int], days: int, kinds: Iterable[str], few: bool) -> Iterator[tuple[str, list[Life]]]:
    """Yield the lives of each kind, one a seed. Each is a process of its own, whose clock is the life's; as many
    run at once as there are CPUs."""
    with ProcessPoolExecutor(None, get_context('spawn'), max_tasks_per_child=1) as pool:
        lives = {kind: [pool.submit(_live, seed, days, kind, few) for seed in seeds] for kind in kinds}
        for kind, futures in lives.items():
            yield kind, [each.result() for each in futures]


def _live(seed: int, days: int, kind: str, few: bool) -> Life:
    with tempfile.TemporaryDirectory(prefix='parity-life-') as folder:
        life = live(Path(folder), seed, days, kind, few)
    plain: dict[int, Fault] = {}
    for fault in life.faults:       # a function does not travel to another process
        plain[id(fault)] = replace(fault, share=None, drawn=None, after=plain.get(id(fault.after)))
    return replace(life, faults=[*plain.values()])


def live(folder: Path, seed: int, days: int, kind: str, few: bool) -> Life:
    """Live so many days below ``folder``. One a process: the clock is the life's.

    ``kind``: quiet, planted, or one of faults.STORIES."""
    began, site, rng = time.process_time(), Site(folder, few), np.random.default_rng(seed)
    world = World(rng, site, days)
    accepted, begin = _LITTLE if few else (ACCEPTED, BEGIN)
    cells = [cell for own in world.cells.values() for cell in own]
    if kind in faults.STORIES:
        world.faults = faults.story(kind, cells, world.nodes, begin)
    elif kind == 'planted':
        planted = faults.planted(rng, cells, world.nodes, begin)
        world.faults = [f for f in planted if f.first < len(world.days) - 4]
    life = Life(seed, world.faults, {cell.name: cell.sd for cell in cells})
    half = {cell.name for cell in cells if rng.random() < 0.5}
    for night in range(len(world.days)):
        verdict, reruns = _night(site, world, night, life)
        life.nights.append(_noted(site, world, verdict, reruns))
        if night == accepted:
            site.accept(half.__contains__, 'the first nights')
        _operate(site, life, night)
    life.cpu = time.process_time() - began
    return life


def _night(site: Site, world: World, night: int, life: Life) -> tuple[Verdict, int]:
    start = world.begin(night)
    site.at(start)
    cases, facts = world.planned(), world.session_facts()
    uuid = site.stored(cases, lambda number: world.ran(cases, number), start, _SECONDS, facts)
    began = time.process_time()
    verdict = site.judged(uuid)
    life.last = time.process_time() - began
    life.judging += life.last
    reruns = site.reruns(verdict, cases)
    for at, again in enumerate(reruns):
        site.stored(again.cases, lambda number, again=again: world.ran(
            again.cases, number, again.nodes, again.elsewhere), start + _SECONDS + at * _AGAIN / len(reruns), 60.0,
            facts, again.arguments)
    began = time.process_time()
    verdict = site.recorded(site.judged(uuid) if reruns else verdict)
    life.judging += time.process_time() - began
    return verdict, len(reruns)


def _noted(site: Site, world: World, verdict: Verdict, reruns: int) -> Night:
    named = site.named(verdict)
    bad = {name: cell for name, cell in named.items() if cell.verdict in
           ('regressed', 'wrong', 'failed', 'missing', 'impossible')}
    return Night(
        world.started, verdict.exit_code, {name: dict(hit) for name, hit in world.hit.items()},
        {name: cell.verdict for name, cell in bad.items()},
        {name for name, cell in bad.items() if not cell.acknowledged},
        {name: cell.state for name, cell in named.items() if cell.state in ('slow', 'comes and goes')},
        {name: cell.reason for name, cell in bad.items()},
        {each.number: each for each in site.incidents()},
        {name: list(cell.ran_on) for name, cell in named.items()}, verdict.session.uuid, reruns,
        site.mail.read_text())


def _operate(site: Site, life: Life, night: int) -> None:
    """Acknowledge what is to be, a night after it was found; accept what is to be accepted."""
    now = life.nights[-1]
    for index, fault in enumerate(life.faults):
        if fault.acked and fault.first < night < fault.end and not fault.after:
            for number, incident in now.incidents.items():
                mine = sum(index in now.hit.get(name, ()) for name in incident.cells)
                if incident.state == 'open' and number not in life.acked and 2 * mine > len(incident.cells) \
                        and now.start - incident.opened.start > 3600:
                    site.acknowledge(number, _ACK_DAYS, f'known: {fault.kind}')
                    life.acked[number] = night
        if fault.accepted and night == fault.end - 1:
            hit = {name for name, by in now.hit.items() if index in by}
            since = site.day_of(life.nights[fault.first].start)
            site.accept(hit.__contains__, f'{fault.kind}: it stays', since)
