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
    if one and other and system == other_system:
        return brief(one, _NAME), brief(other, _NAME)
    return brief(baseline, _NAME), brief(candidate, _NAME)


def _speeds(c: Comparison) -> str:
    """Return how fast the candidate is in each subsystem, the worst first."""
    baseline, candidate = short_names(c.baseline.name, c.candidate.name)
    if not c.means:
        return _without_means(c, baseline, candidate)
    groups = _by_word(c)
    if len(groups['undecided']) == len(c.means):
        return f'whether {candidate} is as fast as {baseline} is undecided: more nights will tell'
    different = sorted(groups['slower'] + groups['faster'], key=lambda mean: mean.speed)
    phrases = [_different(mean) for mean in different]
    alike = groups['equivalent']
    if alike:
        rest = len(alike) > 1 and different and not groups['undecided']
        phrases.append(f'like {baseline}' + (' in all else' if rest else _where(alike)))
    if groups['undecided']:
        phrases.append(f'undecided{_where(groups["undecided"])}')
    return f'{candidate} is {_listed(phrases)}'


def _without_means(c: Comparison, baseline: str, candidate: str) -> str:
    """Return why no subsystem has a speed."""
    if not any(row.n for row in c.rows):
        return f'{candidate} and {baseline} measured nothing in common'
    if all(row.refused for row in c.rows if row.n):
        return f'{candidate} and {baseline} are not like for like, so nothing was compared'
    return f'no figure tells how {candidate} stands beside {baseline}'


def _by_word(c: Comparison) -> dict[Word, list[Mean]]:
    groups: dict[Word, list[Mean]] = {'slower': [], 'faster': [], 'equivalent': [], 'undecided': []}
    for mean in c.means:
        groups[join.word(mean.low, mean.high, 'higher', c.margin)].append(mean)
    return groups


def _different(mean: Mean) -> str:
    where = _where([mean])
    if mean.speed < 1:
        return f'{_whole(1 - mean.speed)} slower{where}'
    if mean.speed < _TIMES:
        return f'{_whole(mean.speed - 1)} faster{where}'
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
    return f'{", ".join(texts[:-1])}, and {texts[-1]}'


def _outliers(c: Comparison) -> str:
    """Return how many figures are slower or faster where their subsystem is not."""
    groups = _by_word(c)
    calm = {mean.subsystem for mean in groups['equivalent'] + groups['undecided']}
    rows = [row for row in c.rows if row.low is not None and not row.against]
    rows = [row for row in rows if row.subsystem in calm]
    counts = Counter(row.verdict for row in rows)
    parts = []
    for word in ('slower', 'faster'):
        if counts[word]:
            parts.append(f'{counts[word]} {_verb(counts[word])} {word}')
    if not parts:
        return ''
    other = 'other ' if groups['slower'] or groups['faster'] else ''
    return f'of {counted(len(rows), f"{other}figure")} {_listed(parts)}'


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
        parts.append(f'{broken} {of_total} {"does" if broken == 1 else "do"} not hold')
    if undecided:
        count = f'{undecided}' if broken else f'{undecided} {of_total}'
        parts.append(f'{count} {_verb(undecided)} undecided')
    return _listed(parts)


def _verb(count: int) -> str:
    return 'is' if count == 1 else 'are'
