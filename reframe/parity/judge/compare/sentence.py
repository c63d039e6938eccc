"""The first sentence of a comparison: where the candidate is slower, and how many expectations hold."""

from __future__ import annotations

from collections import Counter

from parity.base.figures import counted, percent
from parity.base.text import brief
from parity.judge.compare import join
from parity.judge.compare.model import Comparison, Mean, Word

#: Characters of a side's name in a sentence.
_NAME = 60
#: From this speed on a candidate is so many times as fast; below, it is so much per cent faster.
_TIMES = 2.0


def answered(c: Comparison) -> Comparison:
    """Return the comparison with its answer."""
    return c.model_copy(update={'answer': answer(c)})


def answer(c: Comparison) -> str:
    """Return the answer: 'virtual is 5 % slower in memory and like physical in all else; the expectation holds'"""
    clauses = [_speeds(c), _outliers(c), _expectations(c)]
    return '; '.join(filter(None, clauses)) + '.'


def short_names(baseline: str, candidate: str) -> tuple[str, str]:
    """Return the names of both sides without the system that they share."""
    system, _, one = baseline.partition(':')
    other_system, _, other = candidate.partition(':')
    is_shared = system == other_system
    if not (is_shared and one and other):
        one, other = baseline, candidate
    return brief(one, _NAME), brief(other, _NAME)


def _speeds(c: Comparison) -> str:
    """Return how fast the candidate is in each subsystem, the worst first."""
    baseline, candidate = short_names(c.baseline.name, c.candidate.name)
    if not c.means:
        return _without_means(c, baseline, candidate)
    groups = _by_word(c)
    undecided, alike = groups['undecided'], groups['equivalent']
    if len(undecided) == len(c.means):
        return f'whether {candidate} is as fast as {baseline} is undecided: more nights will tell'
    different = groups['slower'] + groups['faster']
    different.sort(key=lambda mean: mean.speed)
    phrases = [_different(mean) for mean in different]
    if alike:
        is_rest = len(alike) > 1 and different and not undecided
        where = ' in all else' if is_rest else _where(alike)
        phrases.append(f'like {baseline}{where}')
    if undecided:
        where = _where(undecided)
        phrases.append(f'undecided{where}')
    return f'{candidate} is {_listed(phrases)}'


def _without_means(c: Comparison, baseline: str, candidate: str) -> str:
    """Return why no subsystem has a speed."""
    common = [row for row in c.rows if row.n]
    if not common:
        return f'{candidate} and {baseline} measured nothing in common'
    if all(row.refused for row in common):
        return f'{candidate} and {baseline} are not like for like, so nothing was compared'
    return f'no figure tells how {candidate} stands beside {baseline}'


def _by_word(c: Comparison) -> dict[Word, list[Mean]]:
    groups: dict[Word, list[Mean]] = {'slower': [], 'faster': [], 'equivalent': [], 'undecided': []}
    for mean in c.means:
        word = join.word(mean.low, mean.high, 'higher', c.margin)
        groups[word].append(mean)
    return groups


def _different(mean: Mean) -> str:
    where = _where([mean])
    gain = mean.speed - 1
    if gain < 0:
        return f'{_whole(-gain)} slower{where}'
    if mean.speed < _TIMES:
        return f'{_whole(gain)} faster{where}'
    return f'{mean.speed:.2g} times as fast{where}'


def _whole(share: float) -> str:
    """Return a share in whole per cent; a smaller one as it is."""
    return f'{100 * share:.0f} %' if share > 0.0095 else percent(share)


def _where(means: list[Mean]) -> str:
    """Return ' in compute and memory'; '' where figures have no subsystem."""
    names = [mean.subsystem for mean in means if mean.subsystem]
    return f' in {_listed(names)}' if names else ''


def _listed(texts: list[str]) -> str:
    if len(texts) < 3:
        return ' and '.join(texts)
    *others, last = texts
    return f'{", ".join(others)}, and {last}'


def _outliers(c: Comparison) -> str:
    """Return how many figures are slower or faster where their subsystem is not."""
    groups = _by_word(c)
    calm = {mean.subsystem for mean in groups['equivalent'] + groups['undecided']}
    rows = []
    for row in c.rows:
        is_judged = row.low is not None and not row.against
        if is_judged and row.subsystem in calm:
            rows.append(row)
    counts = Counter(row.verdict for row in rows)
    parts = []
    for word in ('slower', 'faster'):
        count = counts[word]
        if count:
            parts.append(f'{count} {_verb(count)} {word}')
    if not parts:
        return ''
    are_others = groups['slower'] or groups['faster']
    figure = 'other figure' if are_others else 'figure'
    total = counted(len(rows), figure)
    return f'of {total} {_listed(parts)}'


def _expectations(c: Comparison) -> str:
    """Return how many expectations of the declared pairs hold; '' without any."""
    states = Counter(expectation.state for expectation in c.expectations)
    total = states.total()
    if not total:
        return ''
    if states['ok'] == total:
        return 'the expectation holds' if total == 1 else f'all {total} expectations hold'
    broken, undecided = states['regressed'], states['insufficient']
    of_total = f'of {counted(total, "expectation")}'
    parts = []
    if broken:
        verb = 'does' if broken == 1 else 'do'
        parts.append(f'{broken} {of_total} {verb} not hold')
    if undecided:
        count = f'{undecided}' if broken else f'{undecided} {of_total}'
        parts.append(f'{count} {_verb(undecided)} undecided')
    return _listed(parts)


def _verb(count: int) -> str:
    return 'is' if count == 1 else 'are'
