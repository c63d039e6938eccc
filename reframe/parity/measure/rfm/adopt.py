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
    foreign = [name for name, is_adopted in checks.items() if is_adopted]
    for index, (check, metric) in enumerate(directions.stated()):
        if check in foreign:
            continue
        if check in checks:
            what = f'{check}: its own check says what is better of {metric}'
        else:
            what = unknown('check', check, foreign)
        file = directions.file()
        line = yamlfile.line_of(yamlfile.load(file)[1], ('directions', index, 'check'))
        yield {'file': f'{paths.named(file)}:{line}', 'what': what, 'refuses': False}


def references(check, partition: str | None = None) -> dict[str, tuple]:
    """Return the check's own references on system:partition, by metric; None: on all."""
    stated = check.reference
    if getattr(stated, 'index', None):
        try:
            stated = {'*': stated[check]}
        except Exception:       # an index may name what is known in its set-up only
            stated = {}
    scopes = stated if isinstance(stated, ScopedDict) else ScopedDict(dict(stated))
    values: dict[str, Any] = {}
    for scope in [scopes.scope(partition)] if partition else scopes.data.values():
        values |= dict(scope.items())
    return {name: tuple(getattr(value, 'data', value)) for name, value in values.items()}


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
    stated = references(check, partition)
    unit_of = {name: expression.unit for name, expression in check.perf_variables.items()}
    if not unit_of:
        for name in getattr(check, 'perf_patterns', None) or stated:
            unit_of[name] = _unit(stated.get(name, ()))
    declared = []
    for name, unit in unit_of.items():
        reference = stated.get(name, (0, None, None))
        declared.append(_metric(check, name, unit, reference))
    return tuple(declared) or (AdoptedMetric(PASSED),)


def _unit(reference: tuple) -> str:
    """Return the unit of a reference (value, lower, upper, unit); '' where it states none."""
    return (reference[3] or '') if len(reference) > 3 else ''


def _metric(check, name: str, unit: str, reference: tuple) -> AdoptedMetric:
    class_name = type(check).__name__
    better = directions.better(class_name, name, unit, reference)
    if better:
        return AdoptedMetric(name, unit, better)
    why = (f'{_where(check, name)}: the unit {unit!r} is neither a time nor a rate; name '
           f'check {class_name}, metric {name} and better (higher, lower) in checks/adopt.yaml')
    return AdoptedMetric(name, unit, '', why)


def _where(check, metric: str) -> str:
    """Return file and line of the performance function of a metric, else the check's file."""
    for function in type(check)._rfm_perf_fns.values():
        if function._rfm_perf_key == metric:
            return _line_of(function)
    return paths.named(_file(check))


def _line_of(function) -> str:
    """Return file and line of a performance function."""
    code = inspect.unwrap(function).__code__
    return f'{paths.named(code.co_filename)}:{code.co_firstlineno}'


def _file(check) -> str:
    return sys.modules[type(check).__module__].__file__


def fault(check) -> str:
    """Say which metric two performance functions have, with file and line; '' where each has its own."""
    functions = list(type(check)._rfm_perf_fns.values())
    counts = Counter(function._rfm_perf_key for function in functions)
    for function in reversed(functions):
        name = function._rfm_perf_key
        if counts[name] > 1:
            return (f'{_line_of(function)}: {counts[name]} performance functions '
                    f'are called {name!r}: ReFrame keeps one; give each a name of its own (perf_key)')
    return ''


def measure(check, partition: str) -> dict[str, str]:
    """Take the figures of a check that has run, once. Return why a metric has none, by name.

    ReFrame passes a check whose performance function raises, or gives what is no number."""
    declared = {metric.name: metric for metric in metrics(check, partition)}
    stated = references(check, partition)
    patterns = getattr(check, 'perf_patterns', None)
    expressions = patterns or check.perf_variables
    broken = {}
    with osext.change_dir(check.stagedir):
        for name, expression in list(expressions.items()):
            metric = declared.get(name, AdoptedMetric(name))
            reference = stated.get(name, ()) if name in declared else ()
            try:
                value = sn.defer(_figure(sn.evaluate(expression), metric, reference))
            except Exception as err:
                broken[name] = reasons.cut(f'{_raised(check, name, err)}: {type(err).__name__}: {err}')
                del expressions[name]
                continue
            if patterns:
                expressions[name] = value
            else:
                expressions[name] = sn.make_performance_function(value, expression.unit)
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
    unit = _unit(reference)
    if unit and units.base_unit(unit) != units.base_unit(metric.unit):
        raise ValueError(f'is in {metric.unit!r}, and its reference in {unit!r}; write one unit')
    return figure


def _raised(check, metric: str, err: Exception) -> str:
    """Return file and line of the check where the error was raised."""
    file = _file(check)
    for frame in reversed(traceback.extract_tb(err.__traceback__)):
        if frame.filename == file:
            return f'{paths.named(file)}:{frame.lineno}'
    return _where(check, metric)


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
        names = sorted(self.check.tags)
        folders = Path(paths.named(self.check.prefix)).parts
        if len(folders) > 1 and folders[0] == 'checks':
            names.append(folders[1])
        for name in names:
            if name in codes.SUBSYSTEMS:
                return name
        return 'other'
