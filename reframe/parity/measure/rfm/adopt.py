"""A ReFrame test that knows nothing of parity: its metrics, and its references. Names and units are ReFrame's."""

import inspect
import numbers
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import reframe.utility.sanity as sn
from reframe.core import pipeline
from reframe.utility import ScopedDict, osext

from parity.base import codes, paths, reasons, units, yamlfile
from parity.base.errors import unknown
from parity.judge.refs import accepted
from parity.judge.store.plan_file import parameters
from parity.site import directions, identity
from parity.site.plan import OWN, PASSED


@dataclass(frozen=True)
class AdoptedMetric:
    """A performance variable of ReFrame's, or PASSED."""

    name: str
    unit: str = ''
    better: str = ''        # '': not known
    unknown: str = ''       # why it is not


def strange(loaded: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield a problem of the plan for each entry of adopt.yaml that names no foreign check; all are loaded."""
    checks = {type(check).__name__: hasattr(check, 'parity_told') for check in loaded}
    foreign = [name for name, adopted in checks.items() if adopted]
    for at, (check, metric) in enumerate(directions.stated()):
        if check not in foreign:
            line = yamlfile.line_of(yamlfile.load(directions.file())[1], ('directions', at, 'check'))
            what = f'{check}: its own check says what is better of {metric}' if check in checks \
                else unknown('check', check, foreign)
            yield {'file': f'{paths.named(directions.file())}:{line}', 'what': what, 'refuses': False}


def references(check, partition: str | None = None) -> dict[str, tuple]:
    """Return the check's own references on system:partition, by metric; None: on all."""
    stated = check.reference
    if getattr(stated, 'index', None):
        try:
            stated = {'*': stated[check]}
        except Exception:       # an index may name what is known in its set-up only
            stated = {}
    scopes = stated if isinstance(stated, ScopedDict) else ScopedDict(dict(stated))
    found = scopes.scope(partition) if partition else dict(pair for each in scopes.data.values()
                                                           for pair in each.items())
    return {name: tuple(getattr(value, 'data', value)) for name, value in found.items()}


def refer(check, partition: str, values: dict[str, tuple]) -> None:
    """Have ReFrame apply ``values``, by metric, instead of the check's own references of these metrics."""
    if values:
        stated = check._resolve_reference() if hasattr(check, '_resolve_reference') else check.reference
        check.reference = {partition: {**stated.scope(partition), **values}}


def accepted_values(check, size: str) -> dict[str, tuple]:
    """Return the values of systems/*/references for a case that is being set up, by metric."""
    has = {'size': size, '$environ': check.current_environ.name,
           **parameters(identity.case_name(check.display_name))}
    return accepted.of_case(check.current_partition.fullname, type(check).__name__, has)


def refers() -> bool:
    """Return whether ReFrame reads references from a file ($ref), as it does from 4.10 on."""
    return hasattr(pipeline, '_ReferenceDict')


def metrics(check, partition: str | None = None) -> tuple[AdoptedMetric, ...]:
    """Return what the check has declared so far; PASSED where that is nothing: its hooks may declare more."""
    known = references(check, partition)
    units = {name: expression.unit for name, expression in check.perf_variables.items()}
    for name in () if units else getattr(check, 'perf_patterns', None) or known:
        units[name] = (*known.get(name, ()), '', '', '', '')[3] or ''
    return tuple(_metric(check, name, unit, known.get(name, (0, None, None))) for name, unit in units.items()) \
        or (AdoptedMetric(PASSED),)


def _metric(check, name: str, unit: str, reference: tuple) -> AdoptedMetric:
    own = type(check).__name__
    if said := directions.better(own, name, unit, reference):
        return AdoptedMetric(name, unit, said)
    why = (f'{_where(check, name)}: the unit {unit!r} is neither a time nor a rate; name '
           f'check {own}, metric {name} and better (higher, lower) in checks/adopt.yaml')
    return AdoptedMetric(name, unit, '', why)


def _where(check, metric: str) -> str:
    """Return file and line of the performance function of a metric, else the check's file."""
    code = next((inspect.unwrap(fn).__code__ for fn in type(check)._rfm_perf_fns.values()
                 if fn._rfm_perf_key == metric), None)
    own = sys.modules[type(check).__module__].__file__
    return f'{paths.named(code.co_filename)}:{code.co_firstlineno}' if code else paths.named(own)


def fault(check) -> str:
    """Say which metric two performance functions have, with file and line; '' where each has its own."""
    functions = list(type(check)._rfm_perf_fns.values())
    counts = Counter(fn._rfm_perf_key for fn in functions)
    for fn in reversed(functions):
        if counts[name := fn._rfm_perf_key] > 1:
            code = inspect.unwrap(fn).__code__
            return (f'{paths.named(code.co_filename)}:{code.co_firstlineno}: {counts[name]} performance functions '
                    f'are called {name!r}: ReFrame keeps one; give each a name of its own (perf_key)')
    return ''


def measure(check, partition: str) -> dict[str, str]:
    """Take the figures of a check that has run, once. Return why a metric has none, by name.

    ReFrame passes a check whose performance function raises, or gives what is no number."""
    stated = {each.name: (each, references(check, partition).get(each.name, ()))
              for each in metrics(check, partition)}
    patterns = getattr(check, 'perf_patterns', None)
    found = patterns or check.perf_variables
    broken = {}
    with osext.change_dir(check.stagedir):
        for name, expression in [*found.items()]:
            try:
                value = _figure(sn.evaluate(expression), *stated.get(name, (AdoptedMetric(name), ())))
            except Exception as err:
                broken[name] = reasons.cut(f'{_raised(check, name, err)}: {type(err).__name__}: {err}')
                del found[name]
                continue
            found[name] = sn.defer(value) if patterns else \
                sn.make_performance_function(sn.defer(value), expression.unit)
    return broken


def _figure(value: Any, metric: AdoptedMetric, reference: tuple) -> float:
    """Return what a performance function gave as a figure. TypeError or ValueError where it cannot be one."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f'gives {value!r:.60}; it must give a number')
    try:
        figure = float(value)
    except OverflowError:
        raise ValueError(f'gives {value!r:.60}..., which is too large for a figure') from None
    if metric.better == 'higher' and figure <= 0:
        raise ValueError(f'gives {figure:g}; a figure that is better when it is higher must be above 0')
    unit = (*reference, '', '', '', '')[3]
    if unit and units.base_unit(unit) != units.base_unit(metric.unit):
        raise ValueError(f'is in {metric.unit!r}, and its reference in {unit!r}; write one unit')
    return figure


def _raised(check, metric: str, err: Exception) -> str:
    """Return file and line of the check where the error was raised."""
    own = sys.modules[type(check).__module__].__file__
    lines = [frame.lineno for frame in traceback.extract_tb(err.__traceback__) if frame.filename == own]
    return f'{paths.named(own)}:{lines[-1]}' if lines else _where(check, metric)


class Answers:
    """Answers of a foreign test to what the plan asks every check."""

    needs = ()
    size = OWN

    def __init__(self, check):
        self.variants: dict[str, list[str]] = {}
        self.check = check

    @property
    def metrics(self) -> tuple[AdoptedMetric, ...]:
        return metrics(self.check)

    def metrics_on(self, partition) -> tuple[AdoptedMetric, ...]:
        return metrics(self.check, partition.fullname)

    def not_run(self) -> dict[str, str]:
        return {}

    def needs_of(self, environ) -> list[str]:
        """Nothing; where no environment fits, what the test asks of one."""
        asked = ', '.join(self.check.valid_prog_environs)
        return [] if environ.name else [f'what valid_prog_environs asks for ({asked})']

    @property
    def parity_subsystem(self) -> str:
        """The first tag that names one, else the folder below checks/, else `other`."""
        below = Path(paths.named(self.check.prefix)).parts
        named = [*sorted(self.check.tags), *(below[1:2] if below[:1] == ('checks',) else ())]
        return next((name for name in named if name in codes.SUBSYSTEMS), 'other')
