"""What a storage case may write: fewer repetitions, then smaller files, then nothing; pure arithmetic."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from parity.base.figures import figure


@dataclass(frozen=True)
class IoPlan:
    """What a case writes: bytes of one repetition (all ranks together), repetitions, and all of it; ``why``."""

    repetition_bytes: int
    repetitions: int
    total_bytes: int
    why: str


def fit(wanted: Sequence[int], repetitions: int, budget: int | None, said: str, before: int = 0) -> IoPlan | None:
    """The first of ``wanted`` (bytes of one repetition, best first) of which the budget holds one repetition.

    It gets as many of the ``repetitions`` as the budget holds. ``before`` are the repetitions' worth of bytes that
    are written once, before the first; None is no budget, ``said`` what the budget is. None where nothing fits.
    """
    for size in wanted:
        room = repetitions if budget is None else budget // size - before
        if room >= 1:
            fits = min(repetitions, room)
            changed = fits < repetitions or size < wanted[0]
            why = f'{fits} of {repetitions} repetitions of {figure(size, "B")}'
            if changed:
                asked = figure(wanted[0] * (repetitions + before), 'B')
                why += f': io_budget: case: {said}, asked for {asked}'
            return IoPlan(size, fits, size * (fits + before), why)
    return None


@dataclass
class Night:
    """The bytes that the cases of a session may write on one file system: what is left, in the cases' order."""

    budget: int
    said: str
    left: int = -1
    decided: dict[Hashable, str] = field(default_factory=dict)

    def take(self, case: Hashable, total: int, runs: int) -> str:
        """'' where all ``runs`` of the case fit, and takes their bytes; else why not. A case is decided once."""
        if case not in self.decided:
            left = self.budget if self.left < 0 else self.left
            fits = total * runs <= left
            self.left = left - total * runs * fits
            each = f'{runs} runs of {figure(total, "B")}' if runs > 1 else figure(total, 'B')
            why = f'io_budget: night: {each}, {figure(left, "B")} left of {self.said}'
            self.decided[case] = '' if fits else why
        return self.decided[case]
