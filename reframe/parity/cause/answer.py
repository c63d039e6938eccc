"""`parity cause` in words: what it is about to measure, and the answer."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator

from parity.base.console import Line
from parity.base.figures import counted, duration, number, several
from parity.base.text import node_name
from parity.cause import factorial
from parity.cause.experiment import Trial, TrialResult, decided
from parity.cause.factorial import Effect
from parity.judge.store.incidents import Cause

#: Facts that name a node, or that differ on every boot.
_NO_SETTINGS = ('node', 'nodes')


def planned(experiment: Trial, title: str) -> Iterator[Line]:
    """Yield what would be measured, where, how long, and what each outcome would mean."""
    yield title, 'bold'
    node, peer, now, before = _names(experiment)
    for at, cell in enumerate(experiment.cells):
        slower = f'   {_percent(-math.expm1(-cell.slower))} slower' if experiment.now.identity else ''
        yield f'{"" if at else "cells":9} {cell.name}{slower}'
    place = f'{node} (slow) and {peer} (sound)' if peer else f'{node} alone' if node else 'this machine'
    yield f'where     {place}, partition {experiment.partition}'
    if not before:
        yield f'software  {now}: that of the last good night, too'
    else:
        night = f' (of {experiment.before.night})' if experiment.before.night else ''
        yield f'software  {now} and {before}{night}'
    rounds = min(experiment.wanted, experiment.most)
    turns = factorial.order(0, bool(peer), bool(before))
    sequence = ', '.join(_place_and_software(experiment, *turn) for turn in turns)
    yield (f'turns     {sequence}; then backwards; {rounds} such rounds, {counted(experiment.runs, "run")} a turn')
    yield (f'takes     {number(experiment.node_seconds(rounds) / 3600)} of '
           f'{number(experiment.system.cause.node_hours)} node-hours, about '
           f'{duration(experiment.wall_seconds(rounds))} where no job waits')
    if experiment.wanted > experiment.most:
        yield (f'careful   by its noise ({_percent(experiment.noise)} a turn) {experiment.wanted} rounds are '
               'needed: it may end with "not decided"; cause: {node_hours: ...} in system.yaml allows more',
               'yellow')
    if experiment.now.identity:
        yield from (f'{label:9} {text}' for label, text in _meanings(node, peer, now, before))


def too_dear(experiment: Trial) -> str:
    """Return why the budget allows no experiment; '' where it does."""
    if experiment.most >= factorial.FEWEST:
        return ''
    hours = experiment.node_seconds(factorial.FEWEST) / 3600
    budget = number(experiment.system.cause.node_hours)
    return (f'{factorial.FEWEST} rounds take {number(hours)} node-hours, and the budget is {budget}: state '
            f'cause: {{node_hours: {number(math.ceil(hours))}}} in systems/{experiment.system.name}/system.yaml')


def _meanings(node: str, peer: str, now: str, before: str) -> Iterator[tuple[str, str]]:
    if before:
        on = f' on {node} and on {peer}' if peer else ''
        yield 'means', f'the software: {now} is slower than {before}{on}'
    if peer:
        either = ' with either software' if before else ''
        yield '' if before else 'means', f'the node: {node} is slower than {peer}{either}'
    if before and peer:
        yield '', 'both: each takes a part'
    yield '', 'neither: it does not show any more, or what all of them share is slower'


def _names(experiment: Trial) -> tuple[str, str, str, str]:
    before = experiment.before.label if experiment.before else ''
    now = experiment.now.label
    if os.path.dirname(now) == os.path.dirname(before) != '':
        now, before = map(os.path.basename, (now, before))
    if now == before:       # the same place, or the beginnings of two hashes
        now, before = f'{now} of tonight', f'{before} of {experiment.before.night}'
    return several(_short(experiment.node)), several(_short(experiment.peer)), now, before


def _short(names) -> list[str]:
    return [node_name(name) for name in names]


def _place_and_software(experiment: Trial, slow: bool, tonight: bool) -> str:
    node, peer, now, before = _names(experiment)
    return ' with '.join(filter(None, (node if slow else peer, now if tonight or not before else before)))


def _percent(share: float) -> str:
    return f'{100 * share:.1f} %'


def _slower(effect: Effect) -> str:
    """Return '6.2 % [5.1, 7.3] slower'; of a negative slowdown '... faster'."""
    word, sign = ('slower', 1) if effect.slower >= 0 else ('faster', -1)
    low, high = sorted(sign * 100 * end for end in effect.interval)
    return f'{_percent(sign * effect.share)} [{low:.1f}, {high:.1f}] {word}'


def sentence(experiment: Trial, measured: TrialResult) -> str:
    """Return the answer in one sentence."""
    decision, (node, peer, now, before) = measured.decision, _names(experiment)
    of_node = f'{node} is {_slower(decision.node)} than {peer}' if decision.node else ''
    of_software = f'{now} is {_slower(decision.software)} than {before}' if decision.software else ''
    on = f' on {node} and on {peer}' if decision.node else ''
    either = ' with either software' if decision.software else ''
    if decision.word == 'software':
        return f'the software: {of_software}{on}' + (f'; {_alike(decision.node, node, peer)}' if on else '')
    if decision.word == 'node':
        return f'the node: {of_node}{either}'
    if decision.joint:
        return f'both: only {now} on {node} is slow; neither {node} with {before} nor {now} on {peer} is'
    if decision.word == 'both':
        return f'both: {of_software}, and {of_node}'
    if decision.word == 'neither':
        return _neither(experiment, measured)
    figures = '; '.join(filter(None, (of_software, of_node)))
    return f'not decided: {_more(experiment, measured)} would be needed' + (f' ({figures})' if figures else '')


def _more(experiment: Trial, measured: TrialResult) -> str:
    return counted(measured.decision.more * factorial.TURNS * experiment.runs, 'run') + ' more'


def _alike(effect: Effect, node: str, peer: str) -> str:
    low, high = effect.interval
    return 'the nodes are alike' if low <= 0 <= high else f'of the rest, {node} is {_slower(effect)} than {peer}'


def _neither(experiment: Trial, measured: TrialResult) -> str:
    """Return whether the slowdown is gone, or is that of all which was measured."""
    node, peer, now, before = _names(experiment)
    left = -measured.level if measured.level is not None else 0.0
    if left < -math.log1p(-experiment.loss) / 2:
        return 'neither: it does not show any more'
    pairs = [f'{one} and {other}' for one, other in ((node, peer), (now, before)) if other]
    slower = _percent(-math.expm1(-left))
    return (f'neither: {", ".join(pairs)} are alike, and all are {slower} slower than before: what they share '
            'changed')


def answer(experiment: Trial, measured: TrialResult) -> Cause:
    """Return what the incident keeps."""
    decision, (*_, now, before) = measured.decision, _names(experiment)
    effects = {'node': decision.node, 'software': decision.software}
    return Cause(
        word=decision.word, text=sentence(experiment, measured), measured=time.time(), experiment=measured.id,
        cells=[cell.name for cell in experiment.cells], turns=measured.turns, node=_short(experiment.node),
        peer=_short(experiment.peer), software=now, earlier=before,
        slower={name: [round(share, 5) for share in (effect.share, *effect.interval)]
                for name, effect in effects.items() if effect},
        settings=_settings(experiment, measured) if decision.word in ('node', 'both') else [])


def _settings(experiment: Trial, measured: TrialResult) -> list[str]:
    """Return the settings of the slow node that the sound one has otherwise."""
    node, peer = node_name(experiment.node[0]), node_name(experiment.peer[0])
    slow, sound = (measured.nodes.get(name, {}) for name in (node, peer))
    return [f'{fact} {slow.get(fact) or "none"} on {node}, {sound.get(fact) or "none"} on {peer}'
            for fact in {**slow, **sound} if fact not in _NO_SETTINGS and slow.get(fact) != sound.get(fact)]


def compared(experiment: Trial, measured: TrialResult) -> Iterator[Line]:
    """Yield the ratio of two environments for each metric."""
    now, before = experiment.now.label, experiment.before.label
    for cell in experiment.cells:
        effect = decided(experiment, measured, cell).software
        ratio, low, high = (1 / (1 - share) for share in (effect.share, *effect.interval))
        how = f'{now} is {_slower(effect)} than {before}' if effect.guilty else \
            f'{now} and {before} {"cannot be told apart" if effect.guilty is None else "are alike"}'
        yield (f'{cell.name}: {how}: speed {before} / {now} {ratio:.3f} [{low:.3f}, {high:.3f}]',
               'bold' if effect.guilty else '')
    if measured.decision.word == 'not decided':
        yield f'{_more(experiment, measured)} would tell a difference of {_percent(experiment.loss / 2)}'
