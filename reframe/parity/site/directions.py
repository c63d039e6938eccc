"""The better side of a metric of a test that was not written for parity.

It is what checks/adopt.yaml says, else the side that a reference of one bound leaves open, else what the unit
says: a time is lower, a rate higher."""

import functools
import re
from pathlib import Path
from typing import Literal

from parity.base import paths, yamlfile
from parity.base.strict import Strict

_TIMES = r'(?:[pnumµμ]?s|(?:[mun]?sec(?:ond)?|(?:milli|micro|nano)second|min(?:ute)?|hr?|hour|day)s?)'
_FAULTS = r'(?:.*[\W_])?(?:error|retrans(?:mit|mission)?|fault|failure|drop|loss|miss|timeout|collision)(?:e?s)?'
#: Some tables have times as t[usec]
_LOWER = re.compile(rf'(?:{_TIMES}|t\[{_TIMES}\]|{_FAULTS})(?:/.+)?', re.I)
_HIGHER = re.compile(rf'(?!{_FAULTS}/).+/(?:s|sec|seconds?|min|minute|h|hr|hour|day)|'
                     r'[kmgtpe]?(?:flops|iops|hz|bps)', re.I)


class Direction(Strict):
    """The better side of a metric, where its unit and references do not say it."""

    check: str                          # the class of a test that was not written for parity
    metric: str
    better: Literal['higher', 'lower']


class Adopt(Strict):
    """checks/adopt.yaml."""

    directions: list[Direction]


def file() -> Path:
    """Return checks/adopt.yaml of the checkout; adopt.yaml of the site where there is none."""
    top = paths.checkout()
    return top / 'checks' / 'adopt.yaml' if top else paths.site() / 'adopt.yaml'


@functools.cache
def stated() -> dict[tuple[str, str], str]:
    """Return what adopt.yaml says, by check and metric; {} without the file. UsageError for a wrong one."""
    if not file().exists():
        return {}
    entries = yamlfile.read(file(), Adopt).directions
    return {(entry.check, entry.metric): entry.better for entry in entries}


def better(check: str, metric: str, unit: str, reference: tuple) -> str:
    """Return the better side of a metric; '' where nothing says it. ``reference``: value, lower, upper, ..."""
    if (check, metric) in stated():
        return stated()[check, metric]
    _, lower, upper = (*reference, None, None, None)[:3]
    if lower is None and upper is not None:
        return 'lower'
    if upper is None and lower is not None:
        return 'higher'
    if _HIGHER.fullmatch(unit):
        return 'higher'
    return 'lower' if _LOWER.fullmatch(unit) else ''
