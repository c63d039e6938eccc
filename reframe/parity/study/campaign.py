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
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter

from parity.base.groups import grouped
from parity.study.published.model import Case, Cases, Study

AS, OF, ONE = 'as.', 'of.', 'one'


@dataclass(frozen=True)
class Key:
    """A case of a campaign. ``point`` has the values of its axes."""

    side: str
    repeat: int
    experiment: str
    point: tuple[str, ...]


@dataclass(frozen=True)
class Status:
    """The status of a run without a figure, and its reason; both are '' of a run with one."""

    word: str = ''
    reason: str = ''

    def __str__(self) -> str:
        return f'{self.word}: {self.reason}'


Outcomes = Mapping[Key, Status]


@dataclass(frozen=True)
class Step:
    """A session of ReFrame: cases of one side in one repeat (from 1)."""

    side: str
    repeat: int
    cases: Cases


def key(side: str, repeat: int | str, case: Case) -> Key:
    return Key(side, int(repeat), case.experiment, tuple(case.point.values()))


def keys(steps: Iterable[Step]) -> list[Key]:
    """Return the cases of sessions."""
    of_steps = []
    for step in steps:
        of_steps += [key(step.side, step.repeat, case) for case in step.cases]
    return of_steps


def digests(cases: Iterable[Case]) -> dict[str, str]:
    """Return a digest of each experiment: of its cases, as study.yaml states them."""
    of_experiments = {}
    for name, alike in grouped(cases, attrgetter('experiment')).items():
        stated = []
        for case in alike:
            environ = [case.environ] if case.environ else []
            stated.append([case.check, case.point, case.parameters, case.variables, *environ])
        text = json.dumps(stated, sort_keys=True)
        of_experiments[name] = hashlib.sha256(text.encode()).hexdigest()[:8]
    return of_experiments


# ---- the sessions, in their order

def steps(study: Study, cases: Cases, quick: bool, done: Collection[Key] = ()) -> list[Step]:
    """Return the sessions that measure the cases, but for those that are done."""
    repeats = {name: experiment.taken(quick).repeats for name, experiment in study.experiments.items()}
    most = max((repeats[case.experiment] for case in cases), default=0)
    sessions = []
    for repeat in range(1, most + 1):
        sides = list(study.axes[study.contrast].values)
        if repeat % 2 == 0:
            sides.reverse()
        turns = []
        for side in sides:
            left = [case for case in cases if study.side(case) == side and repeat <= repeats[case.experiment]
                    and key(side, repeat, case) not in done]
            turns.append([Step(side, repeat, session) for session in _sessions(left)])
        for turn in itertools.zip_longest(*turns):
            sessions += [step for step in turn if step]
    return sessions


def _sessions(cases: Iterable[Case]) -> list[list[Case]]:
    """Divide cases into those that one session can run: of one environment, and with one value of each plain
    variable of a check. -P runs its selected cases with each combination of the swept ones."""
    sessions = []
    for alike in grouped(cases, attrgetter('environ')).values():
        sessions += _of_one_environment(alike)
    return sessions


def _of_one_environment(cases: Iterable[Case]) -> list[list[Case]]:
    """Put the parts of different checks into one session, those of one check into sessions of their own."""
    sessions: list[list[Case]] = []
    used: Counter[str] = Counter()
    for alike in grouped(cases, _plain).values():
        check = alike[0].check
        for part in _parts(alike):
            if used[check] == len(sessions):
                sessions.append([])
            sessions[used[check]] += part
            used[check] += 1
    return sessions


def _plain(case: Case) -> tuple:
    """Return what all cases of a check have in common within a session."""
    plain = sorted((name, value) for name, value in case.variables.items() if name not in case.swept)
    return case.check, *plain, *sorted(case.swept)


def _swept(case: Case) -> tuple[str, ...]:
    return tuple(case.variables[name] for name in sorted(case.swept))


def _parts(cases: Cases) -> list[list[Case]]:
    """Return the cases as one part where they are each combination of swept values; else one a combination."""
    by_values = grouped(cases, _swept)
    parts = list(by_values.values())
    different = {_selections(part) for part in parts}
    combinations = math.prod(len(set(values)) for values in zip(*by_values, strict=True))
    if len(different) == 1 and len(parts) == combinations:
        return [list(itertools.chain.from_iterable(parts))]
    return parts


def _selections(cases: Cases) -> frozenset:
    return frozenset(tuple(case.parameters.items()) for case in cases)


# ---- the command line of a session

def arguments(step: Step, files: Mapping[str, str], system: str, extras: Mapping[str, str],
              stated: Mapping[str, str]) -> list[str]:
    """Return ReFrame's arguments for a session on the partition of its cases. ``files``: of the checks;
    ``extras``: of all sessions of the campaign; ``stated``: `digests` of all cases of this side."""
    first = step.cases[0]           # all have its partition and environment
    info: dict[str, object] = {**extras, 'side': step.side, 'repeat': step.repeat}
    plain: list[str] = []
    swept: dict[str, dict[str, None]] = {}
    for case in step.cases:
        info[f'{OF}{case.experiment}'] = stated[case.experiment]
        for name, value in case.variables.items():
            variable = f'{case.check}.{name}'
            if name in case.swept:
                swept.setdefault(variable, {})[value] = None
            else:
                plain.append(f'{variable}={value}')
    words = [*_options('-c', [files[case.check] for case in step.cases]), '-r', '--system',
             f'{system}:{first.partition}']
    if first.environ:
        words += ['-p', f'^{re.escape(first.environ)}$']
    words += ['-n', '|'.join(dict.fromkeys(_selection(case) for case in step.cases)), *_options('-S', plain)]
    words += _options('-P', [f'{name}={",".join(values)}' for name, values in swept.items()])
    return [*words, '--session-extras', ','.join(f'{name}={value}' for name, value in info.items())]


def _selection(case: Case) -> str:
    """Return the pattern of a case for -n. -P makes parameters after -n has selected: it does not name them."""
    having = [f'(?=.*%{name}={_selecting(value)}(%|$))' for name, value in case.parameters.items()]
    return f'^{case.check}{"".join(having)}(%|$)'


def _selecting(value: str) -> str:
    """Return the pattern of a parameter's value for -n: it leaves out blanks, and takes @ for a case's number."""
    return re.escape(value.replace(' ', '')).replace('@', '.')


def _options(option: str, values: Iterable[str]) -> list[str]:
    """Return the option before each value; one that is given twice stands once."""
    pairs = [(option, value) for value in dict.fromkeys(values)]
    return list(itertools.chain.from_iterable(pairs))
