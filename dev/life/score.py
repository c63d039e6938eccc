"""The score of lives: mornings, incidents and notices beside the truth."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, log

from dev.life.faults import EVER
from dev.life.run import Life
from dev.life.site import Incident, place_of
from dev.life.world import CORRELATION

#: Standard errors that an oracle asks for, the nights that it has, and the shift that counts as large.
SURE, WITHIN, LARGE = 3.4, 3, 0.05
#: Variance of a mean of WITHIN nights, over that of one, times WITHIN.
_DEPENDENT = 1 + 2 * sum((1 - lag / WITHIN) * CORRELATION ** lag for lag in range(1, WITHIN))
#: Standard errors of a shift whose end an oracle tells in 95 % of cases; good nights that end what comes and goes.
CLEAR, GOOD = SURE + 1.645, 14
#: Nights after which other work is learned, and explains nothing any more.
LEARNED = 20
#: Events that a notice tells; nights back in which a fault explains what is bad.
_TOLD, _RECENT = ('new', 'also', 'worse', 'back'), 8
_FAILED = ('failed', 'wrong', 'missing')


@dataclass
class Share:
    """Some of all; a rate where ``all`` are months. ``examples`` of those that miss."""

    some: float = 0
    all: float = 0
    examples: list[str] = field(default_factory=list)

    def add(self, good: bool, example: str = '', wanted: bool = True) -> None:
        self.some += good
        self.all += 1
        if good != wanted:
            self.examples.append(example)

    def __add__(self, other: Share) -> Share:
        return Share(self.some + other.some, self.all + other.all, self.examples + other.examples)


class Scored:
    """A life beside the truth, by the number of its faults and incidents."""

    def __init__(self, life: Life):
        self.life, self.nights, self.faults = life, life.nights, life.faults
        self.places = {night.session: k for k, night in enumerate(self.nights)}

    @cached_property
    def last(self) -> dict[int, Incident]:
        return self.nights[-1].incidents

    def hit(self, name: str, night: int) -> dict[int, float]:
        """Return the share that each fault took of a cell, without other work that is learned by then."""
        return {i: share for i, share in self.nights[night].hit.get(name, {}).items()
                if self.faults[i].word != 'other work' or night < self.faults[i].first + LEARNED}

    def causes(self, name: str, night: int, since: float = 0.0) -> set[int]:
        """Return the faults that explain a bad cell: of that night, or else of those before, from ``since`` on."""
        recent = (self.hit(name, k) for k in range(night, max(-1, night - _RECENT - 1), -1)
                  if self.nights[k].start >= since)
        return {*next(filter(None, recent), ())}

    @cached_property
    def joined(self) -> dict[int, dict[str, int]]:
        """Return for each incident the night in which each cell joined."""
        found: dict[int, dict[str, int]] = defaultdict(dict)
        for k, night in enumerate(self.nights):
            for number, incident in night.incidents.items():
                for name in incident.cells:
                    found[number].setdefault(name, k)
        return found

    @cached_property
    def cause(self) -> dict[int, int | None]:
        """The fault that most of an incident's first cells have, the newest of several; None of a false incident.
        The first cells are those of WITHIN nights: one may have been a false alarm the night before."""
        found: dict[int, int | None] = {}
        for number, cells in self.joined.items():
            begin = min(cells.values())
            votes = Counter[int]()
            for name, k in cells.items():
                if k < begin + WITHIN:
                    faults = self.nights[k].incidents[number].faults.values()
                    votes.update(self.causes(name, k, next(each.since for each in faults if each.cell == name)))
            found[number] = max(votes, key=lambda i: (votes[i], self.faults[i].first), default=None)
        return found

    def events(self, number: int) -> Iterator[tuple[int, str]]:
        """Yield night and word of each event that a session made."""
        for event in self.last[number].events:
            if event.session in self.places:
                yield self.places[event.session], event.what

    @cached_property
    def reported(self) -> dict[int, tuple[int, int]]:
        """Return the night and the incident of each fault that was told. Other work is no fault to tell."""
        found: dict[int, tuple[int, int]] = {}
        for number, cells in self.joined.items():
            for k, what in self.events(number):
                fresh = {name for name, since in cells.items()
                         if since == k or what in ('worse', 'back') and since <= k}
                by = [self.hit(name, k) for name in fresh if what in _TOLD]
                for i in set().union(*by):
                    if self.faults[i].word != 'other work' and (i not in found or k < found[i][0]):
                        found[i] = k, number
        return found

    def oracle(self, i: int) -> bool:
        """Return whether an oracle tells a slowdown from its first nights: it knows level, noise and begin."""
        fault, sums = self.faults[i], defaultdict(float)
        before = self.faults.index(fault.after) if fault.after else -1
        was = {n: by[before] for n, by in self.nights[fault.first - 1].hit.items() if before in by}
        for night in self.nights[fault.first:fault.first + WITHIN]:
            for name, by in night.hit.items():
                if i in by:
                    sums[name] -= log((1 - by[i]) / (1 - was.get(name, 0.0))) / WITHIN
        error = {name: self.life.sd[name] * (_DEPENDENT / WITHIN) ** 0.5 for name in sums}
        return any(shift > SURE * error[name] for name, shift in sums.items())

    def large(self, i: int) -> bool:
        most = max((by[i] for night in self.nights for by in night.hit.values() if i in by), default=0.0)
        return round(most, 6) >= LARGE

    def of(self, i: int) -> list[int]:
        """Return the incidents that a fault opened."""
        return [number for number, cause in self.cause.items() if cause == i]

    def over_after(self, i: int) -> tuple[int, list[int]]:
        """Return the measured night by which a fault's incidents must be over (-1: the life ended), and them."""
        fault = self.faults[i]
        mine = self.of(i) + (self.of(self.faults.index(fault.after)) if fault.after else [])
        kind, names = fault.place
        cells = {name for night in self.nights for name, by in night.hit.items() if i in by}
        count = 0
        for k in range(min(fault.end, len(self.nights)), len(self.nights)):
            ran = self.nights[k].ran_on
            on = (ran.get(name, ()) for name in (ran if fault.word in _FAILED else cells))
            count += any(names & {*nodes} if kind == 'node' else nodes for nodes in on)
            if count == WITHIN + GOOD * (fault.incidents > 1):
                return k, mine
        return -1, mine

    def ends_clearly(self, number: int, i: int) -> bool:
        """Return whether an oracle tells from WITHIN nights that fault ``i`` ended, by each of an incident's cells
        that it slows."""
        for name in self.last[number].cells:
            most = max((night.hit.get(name, {}).get(i, 0.0) for night in self.nights), default=0.0)
            if most and -log(1 - min(most, 0.999)) < CLEAR * self.life.sd[name] * (_DEPENDENT / WITHIN) ** 0.5:
                return False
        return True

    def example(self, i: int, text: str) -> str:
        fault = self.faults[i]
        return f'seed {self.life.seed}, nights {fault.first} to {fault.end}, {fault.kind}: {text}'


# ---- the rows of the table

def red(of: Scored) -> Share:
    nights = [k for k, night in enumerate(of.nights) if night.exit_code == 1]
    return Share(len(nights), of.life.months, [_night(of, k) for k in nights])


def not_green(of: Scored) -> Share:
    return Share(sum(night.exit_code != 0 for night in of.nights), of.life.months)


def false(of: Scored) -> Share:
    wrong = [number for number, cause in of.cause.items() if cause is None]
    return Share(len(wrong), of.life.months, [_incident(of, number) for number in wrong])


def in_three(of: Scored) -> Share:
    found = Share()
    for i, fault in enumerate(of.faults):
        if fault.word == 'regressed' and not fault.fades and of.large(i) and of.oracle(i):
            night, _ = of.reported.get(i, (inf, 0))
            found.add(night < fault.first + WITHIN, of.example(i, _when(of, i)))
    return found


def on_their_night(of: Scored) -> Share:
    found = Share()
    for i, fault in enumerate(of.faults):
        if fault.word in _FAILED:
            found.add(of.reported.get(i, (inf, 0))[0] == fault.first, of.example(i, _when(of, i)))
    return found


def right_place(of: Scored) -> Share:
    found = Share()
    for i, (night, number) in of.reported.items():
        if not of.faults[i].after:
            place = place_of(of.nights[night].incidents[number])
            found.add(_fits(place, of.faults[i].place), of.example(i, f'{place}: {_incident(of, number, night)}'))
    return found


def _fits(found: tuple[str, set[str]], wanted: tuple[str, frozenset[str]]) -> bool:
    (kind, names), (want, valid) = found, wanted
    if want == 'everything':
        return kind == want or kind == 'partition' and len(names) > 1 and names <= valid
    return kind == want and names == valid


def right_part(of: Scored) -> Share:
    found = Share()
    for i, (night, number) in of.reported.items():
        incident = of.nights[night].incidents[number]
        if (parts := of.faults[i].parts) and not of.faults[i].after:
            good = incident.part in parts if incident.part else any(part in incident.title for part in parts)
            found.add(good, of.example(i, f'{incident.part!r}: {_incident(of, number, night)}'))
    return found


def one_incident(of: Scored) -> Share:
    found = Share()
    for i in of.reported:
        if not of.faults[i].after:
            mine = of.of(i)
            said = '; '.join(_incident(of, number) for number in mine) or _incident(of, of.reported[i][1])
            found.add(1 <= len(mine) <= of.faults[i].incidents, of.example(i, said))
    return found


def two_causes(of: Scored) -> Share:
    """Count the incidents that have a cell of one fault only, and a cell of another only."""
    found = Share()
    for number, cells in of.joined.items():
        sets = [c for name, k in cells.items() if (c := of.causes(name, k))]
        common = set.intersection(*sets) if sets else set()
        pairs = {(i, j) for a in sets for b in sets if not a & b for i in a for j in b
                 if of.faults[i].after is not of.faults[j] and of.faults[j].after is not of.faults[i]}
        found.add(bool(pairs) and not common, _incident(of, number) + ': '
                  + ' and '.join(sorted({of.faults[i].kind for pair in pairs for i in pair})), False)
    found.all = of.life.months
    return found


def over(of: Scored) -> Share:
    found = Share()
    followed = [fault.after for fault in of.faults]
    for i, fault in enumerate(of.faults):
        night, mine = of.over_after(i)
        if night >= 0 and fault not in followed and fault.end < EVER:
            for number in (number for number in mine if of.ends_clearly(number, i)):
                incident = of.nights[night].incidents.get(number)
                state = incident.state if incident else 'not yet opened'
                found.add(state == 'over', of.example(i, f'{state} in night {night}: {_incident(of, number)}'))
    return found


def worse(of: Scored) -> Share:
    """Count the notices of `worse` whose cells are no slower than they were."""
    found = Share()
    for number, cells in of.joined.items():
        for k, what in of.events(number):
            if what == 'worse':
                more = max((_loss(of, name, k) - _loss(of, name, since) for name, since in cells.items()
                            if since < k), default=0)
                found.add(more < 0.01, f'{_incident(of, number)}: worse in night {k}', False)
    found.all = of.life.months
    return found


def _loss(of: Scored, name: str, night: int) -> float:
    return max(of.nights[night].hit.get(name, {}).values(), default=0.0)


def red_acked(of: Scored) -> Share:
    """Count the red nights of cells that were acknowledged and whose level is what it was. A cell that an
    incident of another cause has does not count."""
    found = Share(all=of.life.months)
    for number, since in of.life.acked.items():
        if (i := of.cause[number]) is None:
            continue
        later = [fault.first for fault in of.faults if fault.after is of.faults[i]]
        acked = {name for name, night in of.joined[number].items() if night <= since}
        for k in range(since + 1, min([of.faults[i].end, len(of.nights), *later])):
            apart = {fault.cell for other, each in of.nights[k].incidents.items() if of.cause.get(other) != i
                     for fault in each.left.values()}
            for name in sorted(acked & of.nights[k].red - apart):
                if of.causes(name, k) == {i}:
                    found.some += 1
                    found.examples.append(of.example(i, f'night {k}, {name}: {of.nights[k].reasons[name][:160]}'))
    return found


def silent(of: Scored) -> Share:
    """Count the nights of cells that an acknowledgement keeps out of the exit code, and that only other faults
    than the acknowledged ones slow. The first nights of a fault do not count: nothing may have found it yet."""
    found = Share(all=of.life.months)
    since = {of.cause[number]: night for number, night in of.life.acked.items()}
    for k, night in enumerate(of.nights):
        acked = {i for i, begin in since.items() if begin < k}
        for name in sorted(night.words.keys() - night.red):
            hit = {i for i in of.hit(name, k) if of.faults[i].first + WITHIN <= k}
            if hit and not hit & acked:
                found.some += 1
                found.examples.append(of.example(min(hit), f'night {k}, {name}: {night.reasons[name][:160]}'))
    return found


def comes_and_goes(of: Scored) -> Share:
    found = Share()
    for i, fault in enumerate(of.faults):
        if fault.incidents > 1:
            named = [k for k, night in enumerate(of.nights) for name, state in night.states.items()
                     if state == 'comes and goes' and i in of.causes(name, k)]
            found.add(bool(named), of.example(i, f'told {_when(of, i)}'))
    return found


def other_work(of: Scored) -> Share:
    found = Share()
    for i, fault in enumerate(of.faults):
        if fault.word == 'other work':
            found.add(bool(of.of(i)), of.example(i, '; '.join(_incident(of, n) for n in of.of(i))), False)
    return found


#: Title, function, least and most.
QUIET: dict[str, tuple[Callable[[Scored], Share], float, float]] = {
    'red mornings a month': (red, -inf, 2), 'mornings of another code than 0 a month': (not_green, -inf, inf),
    'false incidents a month': (false, -inf, 1)}
PLANTED: dict[str, tuple[Callable[[Scored], Share], float, float]] = {
    'told within 3 nights, of 5 % and more that an oracle can tell': (in_three, 0.95, inf),
    'failed, wrong, missing: told on their night': (on_their_night, 1, inf),
    'right place': (right_place, 0.95, inf), 'right part': (right_part, 0.85, inf),
    'one incident': (one_incident, 0.95, inf), 'two causes in one incident, a month': (two_causes, -inf, 0),
    'over within 3 measured nights, of those whose end an oracle can tell': (over, 0.95, inf),
    '`worse` at an unchanged level, a month': (worse, -inf, 0),
    'acknowledged, unchanged, and red: cell-nights a month': (red_acked, -inf, 0),
    'silent by an acknowledgement that was not given for it: cell-nights a month': (silent, -inf, 0),
    'comes and goes: named': (comes_and_goes, 1, inf), 'other work called slower': (other_work, -inf, 0),
    'false incidents a month': (false, -inf, 1), 'red mornings a month': (red, -inf, inf)}


def table(title: str, rows: dict[str, tuple[Callable[[Scored], Share], float, float]], lives: list[Life]
          ) -> list[tuple[str, Share]]:
    """Print a row of each figure, life by life; return those that miss what is wanted."""
    scored, missed = [*map(Scored, lives)], []
    print(f'\n| {title} | ' + ' | '.join(f'seed {life.seed}' for life in lives) + ' | all | wanted |\n|---'
          + '|---:' * (len(lives) + 2) + '|')
    for name, (figure, least, most) in rows.items():
        shares = [figure(one) for one in scored]
        whole = sum(shares, Share())
        value = whole.some / whole.all if whole.all else None
        rate = 'a month' in name
        want = f'at least {100 * least:g} %' if least > -inf else f'at most {most:g}' if most < inf else ''
        said = [*(_text(share, rate) for share in shares), _text(whole, rate, True)]
        print('| ' + ' | '.join([name, *said, want]) + ' |')
        if value is not None and not least <= value <= most:
            missed.append((name, whole))
    return missed


def _text(share: Share, rate: bool, whole: bool = False) -> str:
    if rate:
        return f'{share.some / share.all:.2f}' if share.all else ''
    said = f'{share.some:g} of {share.all:g}'
    return f'{said}, {100 * share.some / share.all:.0f} %' if whole and share.all else said


def of_faults(life: Life) -> None:
    """Print a row of each fault."""
    of = Scored(life)
    print(f'\n| seed {life.seed} | night | oracle | told after | incidents | as |\n|---|---:|---|---:|---|---|')
    for i, fault in enumerate(life.faults):
        night, number = of.reported.get(i, (None, 0))
        oracle = 'yes' if fault.word in _FAILED or fault.word == 'regressed' and of.oracle(i) else 'no'
        print(f'| {fault.kind} | {fault.first} | {oracle} | {"" if night is None else night - fault.first} | '
              f'{", ".join(map(str, of.of(i)))} | {of.nights[night].incidents[number].title if number else ""} |')


def _when(of: Scored, i: int) -> str:
    if i not in of.reported:
        bad = [(k, name) for k in range(of.faults[i].first, min(of.faults[i].end, len(of.nights)))
               for name in of.nights[k].words if i in of.nights[k].hit.get(name, ())]
        return 'never told' + (f'; bad first in night {bad[0][0]}: {bad[0][1]}' if bad else '')
    night, number = of.reported[i]
    return f'told in night {night} as {_incident(of, number, night)}'


def _incident(of: Scored, number: int, night: int = -1) -> str:
    incident = of.nights[night].incidents[number]
    said = ', '.join(f'{what} {k}' for k, what in of.events(number))
    return f'incident {number} ({said}) "{incident.title}", {len(incident.cells)} cells'


def _night(of: Scored, k: int) -> str:
    night = of.nights[k]
    said = '; '.join(f'{name}: {night.reasons[name][:110]}' for name in sorted(night.red)[:2])
    return f'seed {of.life.seed}, night {k}: {len(night.red)} red: {said}'
