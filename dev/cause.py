"""Simulated experiments on the cause of a slowdown: ``python -m dev.cause [EXPERIMENTS]``.

Each case of docs/cause.md is drawn many times: noise of a turn, a steady drift and a wandering one. The program
calls what `parity cause` calls, and counts the words that are wrong, and `not decided`."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from typing import NamedTuple

import numpy as np

from parity.cause import factorial
from parity.cause.factorial import Turn

#: A wrong word in so many experiments at most.
MOST_WRONG = 0.05
#: Rounds that the budget allows.
BUDGET = 24
#: A turn drifts by so much of the noise: steadily at most, and by a random walk.
_STEADY, _WANDERS = 0.2, 0.3


class Case(NamedTuple):
    """True effects of node and software, as shares of the slowdown that the incident states."""

    name: str
    node: float
    software: float
    right: str


CASES = (Case('(a) the software', 0.0, 1.0, 'software'), Case('(b) the node', 1.0, 0.0, 'node'),
         Case('(c) both, half each', 0.5, 0.5, 'both'), Case('(d) gone', 0.0, 0.0, 'neither'),
         Case('(e) below the noise', 0.0, 1.0, 'software'))
NOISES = (0.01, 0.05)
#: Slowdowns that nights find, by noise; and one below the noise, as a share.
_LOSSES = {0.01: (0.05, 0.10), 0.05: (0.15, 0.25)}
_BELOW = 0.2


class Row(NamedTuple):
    case: str
    noise: float
    loss: float
    wrong: float
    open: float
    rounds: float       # on average


def experiment(draw: np.random.Generator, case: Case, noise: float, loss: float) -> tuple[str, int]:
    """Return the word of one experiment, and its rounds: planned by a known noise, then as many as it asks for."""
    slowdown, turns = -math.log1p(-loss), list[Turn]()
    steady, level = draw.uniform(-_STEADY, _STEADY) * noise, 0.0
    # the noise that the history tells is not quite that of tonight
    wanted = min(BUDGET, factorial.rounds(noise * math.exp(draw.normal(0, 0.3)), loss))
    while True:
        for number in range(len(turns) // factorial.TURNS, wanted):
            for node, software in factorial.order(number, True, True):
                level += steady + draw.normal(0, _WANDERS * noise)
                log = -slowdown * (case.node * node + case.software * software) + level + draw.normal(0, noise)
                turns.append(Turn(node, software, log))
        decision = factorial.decide(turns, loss)
        if not decision.more or wanted == BUDGET:
            return decision.word, wanted
        wanted = min(BUDGET, wanted + decision.more)


def table(experiments: int = 500, seed: int = 1) -> list[Row]:
    draw, rows = np.random.default_rng(seed), []
    for noise in NOISES:
        for case in CASES:
            for loss in _LOSSES[noise] if case != CASES[-1] else (_BELOW * noise,):
                done = [experiment(draw, case, noise, loss) for _ in range(experiments)]
                words = Counter(word for word, _ in done)
                wrong = experiments - words['not decided'] - words[case.right]
                rows.append(Row(case.name, noise, loss, wrong / experiments, words['not decided'] / experiments,
                                sum(count for _, count in done) / experiments))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('experiments', nargs='?', type=int, default=500)
    rows = table(parser.parse_args().experiments)
    print('| cause | noise of a turn | slowdown | wrong word | not decided | rounds |\n|---|---|---|---|---|---|')
    for row in rows:
        print(f'| {row.case} | {100 * row.noise:.0f} % | {100 * row.loss:g} % | {100 * row.wrong:.1f} % | '
              f'{100 * row.open:.1f} % | {row.rounds:.1f} |')
    return int(any(row.wrong > MOST_WRONG for row in rows))


if __name__ == '__main__':
    raise SystemExit(main())
