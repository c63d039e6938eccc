"""Recorded outputs through the checks' own parse(): a case that has run, without ReFrame."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import MethodType, SimpleNamespace

from parity.base import codes
from parity.judge.store.case_record import CaseRecord
from parity.measure.check import reader
from parity.measure.check.mpi import Mpi


def room(code: str):
    """The module of a code's check, loaded as ReFrame loads it."""
    return reader.room(codes.named(code))


def recorded(code: str) -> Path:
    """The folder of a code's recorded outputs."""
    return codes.named(code).file.parent / 'outputs'


def check(code: str, name: str):
    """The check's class."""
    return getattr(room(code), name)


def stated(value, facts):
    """The value of `cases` in an expected.yaml: '=EXPRESSION' is of the output's facts."""
    if isinstance(value, dict):
        return SimpleNamespace(**{name: stated(each, facts) for name, each in value.items()})
    return eval(value[1:], {}, dict(facts)) if isinstance(value, str) and value.startswith('=') else value


class Replay:
    """A case that has run, an MPI one with profile=yes. A method that `asked` names returns what is stated there."""

    stagedir, size = '/nonexistent', 'quick'

    def __init__(self, cls, facts, extras=(), asked=(), calls=()):
        self.cls, self.extras = cls, vars(stated(dict(extras), facts))
        self.parity = CaseRecord()
        for name, value in vars(stated(dict(asked), facts)).items():
            constant = inspect.isfunction(getattr(cls, name, None))
            setattr(self, name, (lambda *_, value=value: value) if constant else value)
        for name in calls:
            getattr(self, name)()
        self.declared = {m.name for m in self.metrics}
        if issubclass(cls, Mpi):
            self.metrics = (*self.metrics, *room('mpip').METRICS)
        self.parity['left_out'] |= self.not_run()

    def __getattr__(self, name):
        value = getattr(self.cls, name)
        return MethodType(value, self) if inspect.isfunction(value) else value

    def extra(self, key):
        return self.extras.get(key)

    def replay(self, text):
        values = self.parse(text)
        assert self.declared - values.keys() == self.parity['left_out'].keys() and self.parity['facts']
        return values
