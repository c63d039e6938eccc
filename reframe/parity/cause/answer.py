"""`parity cause` in words: what it is about to measure, and the answer."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from parity.base.console import Line
from parity.base.figures import counted, duration, number, several
from parity.base.text import node_name
from parity.cause import factorial
from parity.cause.experiment import Trial, TrialResult, decided
from parity.cause.factorial import Decision, Effect
from parity.judge.store.incidents import Cause

#: Facts that name a node, or that differ on every boot.
_NO_SETTINGS = ('node', 'nodes')


class Names(NamedTuple):
    """The values of both factors in words. ``peer`` and ``before`` are '' where a factor is not measured."""

    node: str
    peer: str
    now: str
    before: str


def planned(experiment: Trial, title: str) -> Iterator[Line]:
    """Yield what would be measured, where, how long, and what each outcome would mean."""
    names = _names(experiment)
    rounds = min(experiment.wanted, experiment.most)
    yield title, 'bold'
    yield from _cells(experiment)
    yield f'where     {_place(names)}, partition {experiment.partition}'
    yield f'software  {_software(experiment, names)}'
    sequence = _sequence(experiment, names)
    runs = counted(experiment.runs, 'run')
    yield f'turns     {sequence}; then backwards; {rounds} such rounds, {runs} a turn'
    hours = number(experiment.node_seconds(rounds) / 3600)
    budget = number(experiment.system.cause.node_hours)
    wall_time = duration(experiment.wall_seconds(rounds))
    yield f'takes     {hours} of {budget} node-hours, about {wall_time} where no job waits'
    if experiment.wanted > experiment.most:
        yield (f'careful   by its noise ({_percent(experiment.noise)} a turn) {experiment.wanted} rounds are '
               'needed: it may end with "not decided"; cause: {node_hours: ...} in system.yaml allows more',
               'yellow')
    if not experiment.of_environs:
        for label, text in _meanings(names):
            yield f'{label:9} {text}'


def _cells(experiment: Trial) -> Iterator[str]:
    """Yield a line for each cell, the first one with a label. Of two environments none is known to be slower."""
    label = 'cells:'
    for cell in experiment.cells:
        line = f'{label:9} {cell.name}'
        if not experiment.of_environs:
            share = factorial.as_share(cell.slower)
            line += f'   {_percent(share)} slower'
        yield line
        label = ''


def _place(names: Names) -> str:
    if names.peer:
        return f'{names.node} (slow) and {names.peer} (sound)'
    return f'{names.node} alone' if names.node else 'this machine'


def _software(experiment: Trial, names: Names) -> str:
    if experiment.before is None:
        return f'{names.now}: that of the last good night, too'
    night = f' (of {experiment.before.night})' if experiment.before.night else ''
    return f'{names.now} and {names.before}{night}'


def _sequence(experiment: Trial, names: Names) -> str:
    """Return the turns of the first round: `n1 with A, n2 with A, ...`."""
    turns = []
    for slow, tonight in experiment.turns(1):
        place = names.node if slow else names.peer
        is_earlier = names.before and not tonight
        software = names.before if is_earlier else names.now
        words = [word for word in (place, software) if word]
        turns.append(' with '.join(words))
    return ', '.join(turns)


def too_dear(experiment: Trial) -> str:
    """Return why the budget allows no experiment; '' where it does."""
    if experiment.most >= factorial.FEWEST:
        return ''
    system = experiment.system
    hours = experiment.node_seconds(factorial.FEWEST) / 3600
    budget = number(system.cause.node_hours)
    enough = number(math.ceil(hours))
    return (f'{factorial.FEWEST} rounds take {number(hours)} node-hours, and the budget is {budget}: state '
            f'cause: {{node_hours: {enough}}} in systems/{system.name}/system.yaml')


def _meanings(names: Names) -> Iterator[tuple[str, str]]:
    """Yield what each outcome would mean, the first one with a label."""
    node, peer, now, before = names
    label = 'means'
    if before:
        on = f' on {node} and on {peer}' if peer else ''
        yield label, f'the software: {now} is slower than {before}{on}'
        label = ''
    if peer:
        either = ' with either software' if before else ''
        yield label, f'the node: {node} is slower than {peer}{either}'
    if before and peer:
        yield '', 'both: each takes a part'
    yield '', 'neither: it does not show any more, or what all of them share is slower'


def _names(experiment: Trial) -> Names:
    now = experiment.now.label
    before = experiment.before.label if experiment.before else ''
    folder = os.path.dirname(now)
    if folder and folder == os.path.dirname(before):
        now = os.path.basename(now)
        before = os.path.basename(before)
    if now == before:       # the same place, or the beginnings of two hashes
        now = f'{now} of tonight'
        before = f'{before} of {experiment.before.night}'
    node = several(_short(experiment.node))
    peer = several(_short(experiment.peer))
    return Names(node, peer, now, before)


def _short(names: Sequence[str]) -> list[str]:
    return [node_name(name) for name in names]


def _percent(share: float) -> str:
    return f'{100 * share:.1f} %'


def _slower(effect: Effect) -> str:
    """Return '6.2 % [5.1, 7.3] slower'; of a negative slowdown '... faster'."""
    shares = [effect.share, *effect.interval]
    sign, word = 1, 'slower'
    if effect.slower < 0:
        sign, word = -1, 'faster'
    middle, *ends = [100 * sign * share for share in shares]
    low, high = sorted(ends)
    return f'{middle:.1f} % [{low:.1f}, {high:.1f}] {word}'


def sentence(experiment: Trial, measured: TrialResult) -> str:
    """Return the answer in one sentence."""
    decision = measured.decision
    names = _names(experiment)
    node, peer, now, before = names
    of_node = of_software = ''
    if decision.node:
        of_node = f'{node} is {_slower(decision.node)} than {peer}'
    if decision.software:
        of_software = f'{now} is {_slower(decision.software)} than {before}'
    match decision.word:
        case 'software' if decision.node:
            alike = _alike(decision.node, names)
            return f'the software: {of_software} on {node} and on {peer}; {alike}'
        case 'software':
            return f'the software: {of_software}'
        case 'node':
            either = ' with either software' if decision.software else ''
            return f'the node: {of_node}{either}'
        case 'both' if decision.joint:
            return f'both: only {now} on {node} is slow; neither {node} with {before} nor {now} on {peer} is'
        case 'both':
            return f'both: {of_software}, and {of_node}'
        case 'neither':
            return _neither(experiment, measured)
    more = _more(experiment, measured)
    text = f'not decided: {more} would be needed'
    effects = [effect for effect in (of_software, of_node) if effect]
    if effects:
        text += f' ({"; ".join(effects)})'
    return text


def _more(experiment: Trial, measured: TrialResult) -> str:
    """Return the runs that would decide it, in words."""
    turns = measured.decision.more * factorial.TURNS
    runs = turns * experiment.runs
    return f'{counted(runs, "run")} more'


def _alike(effect: Effect, names: Names) -> str:
    low, high = effect.interval
    if low <= 0 <= high:
        return 'the nodes are alike'
    return f'of the rest, {names.node} is {_slower(effect)} than {names.peer}'


def _neither(experiment: Trial, measured: TrialResult) -> str:
    """Return whether the slowdown is gone, or is that of all which was measured."""
    left = -measured.level if measured.level is not None else 0.0
    half_of_it = factorial.as_log(experiment.loss) / 2
    names = _names(experiment)
    node = measured.decision.node
    slower_peer = ''
    if node and node.slower + node.half < -half_of_it:
        slower_peer = f'{names.node} is {_slower(node)} than {names.peer}'
    if left < half_of_it:
        more = f' ({slower_peer})' if slower_peer else ''
        return f'neither: it does not show any more{more}'
    slower = _percent(factorial.as_share(left))
    if slower_peer:
        return f'neither: {slower_peer}, and {slower} slower than before: what they share changed'
    pairs = []
    if names.peer:
        pairs.append(f'{names.node} and {names.peer}')
    if names.before:
        pairs.append(f'{names.now} and {names.before}')
    return (f'neither: {", ".join(pairs)} are alike, and all are {slower} slower than before: what they share '
            'changed')


def answer(experiment: Trial, measured: TrialResult) -> Cause:
    """Return what the incident keeps."""
    decision = measured.decision
    names = _names(experiment)
    cells = [cell.name for cell in experiment.cells]
    text = sentence(experiment, measured)
    shares = _shares(decision)
    settings = []
    if decision.word in ('node', 'both'):
        settings = _settings(experiment, measured)
    return Cause(
        word=decision.word,
        text=text,
        measured=time.time(),
        experiment=measured.id,
        cells=cells,
        turns=measured.turns,
        node=_short(experiment.node),
        peer=_short(experiment.peer),
        software=names.now,
        earlier=names.before,
        slower=shares,
        settings=settings)


def _shares(decision: Decision) -> dict[str, list[float]]:
    """Return by what share each measured factor is slower, and its interval."""
    effects = {'node': decision.node, 'software': decision.software}
    shares = {}
    for factor, effect in effects.items():
        if effect:
            middle_and_ends = effect.share, *effect.interval
            shares[factor] = [round(share, 5) for share in middle_and_ends]
    return shares


def _settings(experiment: Trial, measured: TrialResult) -> list[str]:
    """Return the settings of the slow node that the sound one has otherwise."""
    node = node_name(experiment.node[0])
    peer = node_name(experiment.peer[0])
    slow = measured.nodes.get(node, {})
    sound = measured.nodes.get(peer, {})
    settings = []
    for fact in {**slow, **sound}:
        if fact in _NO_SETTINGS or slow.get(fact) == sound.get(fact):
            continue
        of_slow = slow.get(fact) or 'none'
        of_sound = sound.get(fact) or 'none'
        settings.append(f'{fact} {of_slow} on {node}, {of_sound} on {peer}')
    return settings


def compared(experiment: Trial, measured: TrialResult) -> Iterator[Line]:
    """Yield the ratio of two environments for each metric."""
    now = experiment.now.label
    before = experiment.before.label
    for cell in experiment.cells:
        decision = decided(experiment, measured, cell)
        effect = decision.software
        shares = effect.share, *effect.interval
        ratio, low, high = [1 / (1 - share) for share in shares]
        speed = f'speed {before} / {now} {ratio:.3f} [{low:.3f}, {high:.3f}]'
        style = ''
        if effect.guilty:
            how = f'{now} is {_slower(effect)} than {before}'
            style = 'bold'
        elif effect.guilty is None:
            how = f'{now} and {before} cannot be told apart'
        else:
            how = f'{now} and {before} are alike'
        yield f'{cell.name}: {how}: {speed}', style
    if measured.decision.word == 'not decided':
        more = _more(experiment, measured)
        smallest = _percent(experiment.loss / 2)
        yield f'{more} would tell a difference of {smallest}'
