"""Recorded outputs through the checks' own parse(): a case that has run, without ReFrame."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

from parity.base import codes
from parity.check import reader
from parity.check.mpi import Mpi
from parity.check.workload import Workload


def room(code: str):
    """The module of a code's check, loaded as ReFrame loads it."""
    return reader.room(codes.named(code))


def recorded(code: str) -> Path:
    """The folder of a code's recorded outputs."""
    return codes.named(code).file.parent / 'outputs'


def check(code: str, name: str):
    """The check's class."""
    return getattr(room(code), name)


class Replay(SimpleNamespace):
    """A case that has run, an MPI one with profile=yes: the partition's facts, and what parse() says of its figures."""

    def __init__(self, cls, extras, **attributes):
        beside = room('mpip').METRICS if issubclass(cls, Mpi) else ()
        super().__init__(cls=cls, extras=extras, labels={}, left_out={}, facts={}, beside=beside, metrics=(*cls.metrics, *beside), **attributes)

    def extra(self, key):
        return self.extras.get(key)

    def label(self, metrics, word, reason):
        self.labels.update(dict.fromkeys(metrics, (word, reason)))

    def leave_out(self, metrics, reason):
        self.left_out.update(dict.fromkeys(metrics, reason))

    def note(self, facts):
        self.facts = facts

    def label_cached(self, *args):
        return Workload.label_cached(self, *args)

    def replay(self, text):
        values = self.cls.parse(self, text)
        assert {m.name for m in set(self.metrics).difference(self.beside)} <= set(values) | set(self.left_out)
        return values
