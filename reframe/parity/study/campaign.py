"""The sessions of ReFrame that measure a study: each side in each repeat, AB BA, so that neighbours are pairs.

A session says in its extras what it is: study=NAME, mode=full or quick, run=ID of the campaign, side=VALUE of the
contrasted axis and repeat=N. as.AXIS.VALUE=NAME is a name that --as gave. one=device says that both sides are on
one. of.EXPERIMENT=DIGEST is of study.yaml: what was edited since is not what that session measured."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from parity.base.groups import grouped
from parity.study.published.model import Case, Study

AS, OF, ONE = 'as.', 'of.', 'one'
#: A case of a campaign: side, repeat, experiment, and the values of its axes.
Key = tuple[str, ...]


class Status(NamedTuple):
    """The status of a run without a figure, and its reason; both are '' of a run with one."""

    word: str = ''
    reason: str = ''

    def __str__(self) -> str:
        return f'{self.word}: {self.reason}'


@dataclass(frozen=True)
class Step:
    """A session of ReFrame: cases of one side in one repeat (from 1)."""

    side: str
    repeat: int
    cases: Sequence[Case]


def key(side: str, repeat: int | str, case: Case) -> Key:
    return side, str(repeat), case.experiment, *case.point.values()


def digests(cases: Iterable[Case]) -> dict[str, str]:
    """Return a digest of each experiment: of its cases, as study.yaml states them."""
    stated = {name: json.dumps([[c.check, c.point, c.parameters, c.variables, *([c.environ] if c.environ else [])]
                                for c in of], sort_keys=True)
              for name, of in grouped(cases, attrgetter('experiment')).items()}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:8] for name, text in stated.items()}


def steps(study: Study, cases: Sequence[Case], quick: bool, done: Collection[Key] = ()) -> list[Step]:
    """Return the sessions that measure the cases, but for those that are done."""
    found = []
    repeats = {name: experiment.taken(quick).repeats for name, experiment in study.experiments.items()}
    for repeat in range(1, max((repeats[c.experiment] for c in cases), default=0) + 1):
        sides = list(study.axes[study.contrast].values)
        turns = [[Step(side, repeat, group) for of in grouped(
            (c for c in cases if study.side(c) == side and key(side, repeat, c) not in done
             and repeat <= repeats[c.experiment]), attrgetter('environ')).values() for group in _sessions(of)]
            for side in (sides if repeat % 2 else sides[::-1])]
        found += [step for pair in itertools.zip_longest(*turns) for step in pair if step]
    return found


def _sessions(cases: Iterable[Case]) -> list[list[Case]]:
    """Divide cases into those that one session can run: a check's plain variables have one value there, and -P
    runs its selected cases with each combination of the swept ones."""
    found: dict[tuple, dict[tuple, list[Case]]] = {}
    for case in cases:
        plain = tuple(sorted((k, v) for k, v in case.variables.items() if k not in case.swept))
        swept = tuple((k, case.variables[k]) for k in sorted(case.swept))
        found.setdefault((case.check, plain, *(k for k, _ in swept)), {}).setdefault(swept, []).append(case)
    sessions: list[list[Case]] = []
    used: Counter[str] = Counter()
    for (check, *_), swept in found.items():
        alike = len({frozenset(tuple(c.parameters.items()) for c in of) for of in swept.values()}) == 1
        whole = alike and len(swept) == math.prod(len(set(values)) for values in zip(*swept, strict=True))
        for part in [sum(swept.values(), [])] if whole else swept.values():
            sessions += [[]] if used[check] == len(sessions) else []
            sessions[used[check]] += part
            used[check] += 1
    return sessions


def arguments(step: Step, files: Mapping[str, str], system: str, extras: Mapping[str, str],
              stated: Mapping[str, str]) -> list[str]:
    """Return ReFrame's arguments for a session on the partition of its cases. ``files``: of the checks;
    ``extras``: of all sessions of the campaign; ``stated``: `digests` of all cases of this side."""
    selected, plain, swept = [], [], {}
    for case in step.cases:
        # -P makes parameters after -n has selected: a selection does not name them
        having = ''.join(f'(?=.*%{name}={_selecting(value)}(%|$))' for name, value in case.parameters.items())
        selected.append(f'^{case.check}{having}(%|$)')
        for name, value in case.variables.items():
            if name in case.swept:
                swept.setdefault(f'{case.check}.{name}', {})[value] = True
            else:
                plain.append(f'{case.check}.{name}={value}')
    info = {**extras, 'side': step.side, 'repeat': step.repeat,
            **{f'{OF}{case.experiment}': stated[case.experiment] for case in step.cases}}
    environ, place = step.cases[0].environ, f'{system}:{step.cases[0].partition}'     # of all its cases
    return [*_options('-c', (files[case.check] for case in step.cases)), '-r', '--system', place,
            *(['-p', f'^{re.escape(environ)}$'] if environ else []),
            '-n', '|'.join(dict.fromkeys(selected)), *_options('-S', plain),
            *_options('-P', (f'{name}={",".join(values)}' for name, values in swept.items())),
            '--session-extras', ','.join(f'{k}={v}' for k, v in info.items())]


def _selecting(value: str) -> str:
    """Return the pattern of a parameter's value for -n: it leaves out blanks, and takes @ for a case's number."""
    return re.escape(value.replace(' ', '')).replace('@', '.')


def _options(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in dict.fromkeys(values) for word in (option, value)]
