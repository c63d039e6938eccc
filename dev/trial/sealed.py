"""The sealed list: which faults the trial has, where, how large and in which nights."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.trial import faults
from dev.trial.cluster import NODES
from parity.base.errors import UsageError

#: Nights before the first fault, faults, nights between two, and how long a fault lasts. A slowdown is to be told
#: within 7 nights. After it, 2 good nights end its incident, and a level begins anew with the 4th.
QUIET, COUNT, ROOM = 60, 12, (5, 6)
LASTS, SHORT = (7, 8), (1, 3)
#: A fault that comes and goes: spells, nights of each, and nights between them.
SPELLS, SPELL, PAUSE = 3, 3, 3
#: Nights after a fault that came and went: it is over after 14 good ones. Nights after the last fault.
AFTER_SPELLS, AFTER = 16, 5
#: Sizes are drawn from the least that shows on, at least a tenth, over so much; a machine loses so much at most.
LEAST, SPAN, MOST = 0.10, 0.15, 0.9
#: The figure that says how small a fault of a kind may be, and that its ``base`` is.
_FIGURE = {
    'CpuShare': 'Hpl.gflops', 'SlowerNode': 'Hpl.gflops', 'Daemon': 'Hpl.gflops', 'SlowDisk': 'Fio.rate_1MiB_1',
    'SlowLink': 'Pairs.bandwidth_1MiB', 'Latency': 'Pairs.latency_8B', 'Loss': 'Pairs.bandwidth_1MiB'}


@dataclass(frozen=True)
class Entry:
    """A fault of the list. ``nights``: in which it is in."""

    kind: str
    node: str
    size: float
    base: float
    nights: list[int]

    @property
    def first(self) -> int:
        return self.nights[0]

    @property
    def end(self) -> int:
        """Return the first night after its last one."""
        return self.nights[-1] + 1

    @property
    def spells(self) -> int:
        return 1 + sum(later - night > 1 for night, later in zip(self.nights, self.nights[1:], strict=False))

    def fault(self, folder: Path) -> faults.Fault:
        return faults.of(self.kind, folder, self.node, self.size, self.base)

    def __str__(self) -> str:
        size = f' {100 * self.size:.0f} %' if self.size else ''
        return f'{self.kind}{size}' + (f' on {self.node}' if self.node else '')


@dataclass(frozen=True)
class Noise:
    """The noise of a figure in quiet nights: its usual value, its scatter, and the least slowdown that shows."""

    usual: float
    scatter: float
    least: float


def drawn(seed: int, noise: dict[str, Noise], absent: dict[str, str]) -> list[Entry]:
    """Return the faults that a seed draws. ``absent``: kinds that this machine cannot have, and why."""
    rng = random.Random(seed)
    kinds = [kind for kind in faults.KINDS if kind not in absent]
    if len(kinds) < COUNT:
        why = '; '.join(absent.values())
        raise UsageError(f'{len(kinds)} kinds of faults are possible here, must be {COUNT}: {why}')
    rng.shuffle(kinds)
    kinds = kinds[:COUNT]
    lasting = [kind for kind in kinds if not faults.KINDS[kind].fails]
    coming = rng.choice([kind for kind in lasting if kind in faults.SIZED])
    first, second = rng.sample([kind for kind in lasting if kind != coming], 2)
    entries, night = [], QUIET
    for kind in kinds:
        if kind == second:
            continue                        # it begins with ``first``
        length = rng.randint(*(SHORT if faults.KINDS[kind].fails else LASTS))
        nights = list(range(night, night + length))
        after = rng.randint(*ROOM)
        if kind == coming:
            nights = [night + spell * (SPELL + PAUSE) + at for spell in range(SPELLS) for at in range(SPELL)]
            after = AFTER_SPELLS
        entries.append(_entry(kind, rng, nights, noise, ''))
        if kind == first:
            entries.append(_entry(second, rng, nights, noise, entries[-1].node))
        night = nights[-1] + 1 + after
    return entries


def nights(entries: Iterable[Entry]) -> int:
    """Return how many nights a list takes: the quiet ones alone without a fault."""
    count = QUIET
    for entry in entries:
        after = AFTER if entry.spells == 1 else AFTER_SPELLS + 1
        count = max(count, entry.end + after)
    return count


def _entry(kind: str, rng: random.Random, nights: list[int], noise: dict[str, Noise], other: str) -> Entry:
    """Return a fault with a place and a size; not on the node ``other``."""
    node = rng.choice([name for name in NODES if name != other]) if kind in faults.OF_A_NODE else ''
    figure = noise.get(_FIGURE.get(kind, ''))
    size = 0.0
    if kind in faults.SIZED:
        least = max(LEAST, figure.least if figure else LEAST)
        size = round(min(MOST, rng.uniform(least, least + SPAN)), 3)
    return Entry(kind, node, size, figure.usual if figure else 0.0, nights)


def write(file: Path, seed: int, entries: list[Entry]) -> str:
    """Write the list; return its SHA-256 digest. UsageError where there is one already."""
    if file.exists():
        raise UsageError(f'{file}: is there already, and its digest may be committed; '
                         'another trial needs another folder')
    text = json.dumps({'seed': seed, 'faults': [asdict(entry) for entry in entries]}, indent=1) + '\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return digest(file)


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def read(file: Path) -> tuple[int, list[Entry]]:
    """Return seed and faults; UsageError for a list that cannot be read."""
    try:
        stored = json.loads(file.read_text())
        return stored['seed'], [Entry(**entry) for entry in stored['faults']]
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise UsageError(f'{file}: {err}; valid is what `python -m dev.trial seal` wrote') from None
