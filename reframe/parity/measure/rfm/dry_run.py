"""Set up cases that a command line could make, and run none: their checks say what a partition cannot run."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError, what
from reframe.core.fields import make_convertible
from reframe.core.meta import make_test
from reframe.utility import osext

from parity.base import submission
from parity.base.errors import unknown
from parity.measure.rfm.variables import SAME_CASE, declared, forms, stored_as
from parity.site.plan import Asked, CaseAnswer, not_offered


def answers(asked: Iterable[dict[str, Any]], checks: Iterable[Any]) -> list[dict[str, Any]]:
    """Answer each of ``asked`` (site.plan.Asked), in the form of site.plan.CaseAnswer, by the ``checks``."""
    makers = {type(check).__name__: _Maker(check) for check in checks}
    partitions = {partition.name: partition for partition in runtime.runtime().system.partitions}
    stage = runtime.runtime().make_stagedir('asked')       # they share it: none runs
    # a launcher asks its program for the version each time
    with mock.patch.object(osext, 'run_command', functools.cache(osext.run_command)), \
            mock.patch.object(runtime.RuntimeContext, 'make_stagedir', lambda *_: stage):
        return [_answer(Asked(**each), makers, partitions).model_dump() for each in asked]


def _answer(asked: Asked, makers: dict[str, _Maker], partitions: dict[str, Any]) -> CaseAnswer:
    if asked.check not in makers:
        return CaseAnswer(reason=unknown('check', asked.check, list(makers)))
    maker = makers[asked.check]
    if wrong := next(_wrong(type(maker.loaded), asked.variables), None):
        return CaseAnswer(wrong=wrong[0], reason=wrong[1])
    try:
        case = maker.made(asked)
    except Exception:           # whatever a hook of the check does is the case's fault
        return CaseAnswer(reason=_fault())
    metrics = [metric.name for metric in getattr(case, 'metrics', ())]
    if not asked.partition:
        return CaseAnswer(metrics=metrics)
    partition = partitions[asked.partition]
    beyond, reason = case.beyond_memory(partition) if hasattr(case, 'beyond_memory') else ('', '')
    return CaseAnswer(beyond=beyond, reason=reason or _not_run(case, partition, asked.environ), metrics=metrics)


def _wrong(check: type, variables: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each variable that a study may not set, or not to its value, with a sentence."""
    patterns, valid = forms(check), declared(check)
    for name, text in variables.items():
        if name not in valid:
            yield name, f'{unknown("variable", name, valid)}: a study sets what {check.__name__} declares itself'
        elif text and not re.fullmatch(patterns.get(name, '.*'), text):
            yield name, f'{text!r}: must be of the form {patterns[name]}'
        elif name not in SAME_CASE and (why := _not_found(check, name, text)):
            yield name, why


def _not_found(check: type, name: str, text: str) -> str:
    """Return why the case would not be found by this value again: its name would have another; '' where it is."""
    try:
        stored = stored_as(check, name, text)
    except (TypeError, ValueError):         # whoever makes the case says so
        return ''
    if stored == text:
        return ''
    if re.search(r'[\s%|]', text):
        return f'{text!r}: must have no blank, % or |'
    return f'{text!r}: must be written as {stored!r}'


class _Maker:
    """Makes cases of a check as -S does: a class for each set of variables, whose values it sets anew."""

    def __init__(self, loaded: Any):
        self.loaded = loaded
        self.classes: dict[tuple[str, ...], type] = {}

    def made(self, asked: Asked) -> Any:
        """Return a case. ReFrame raises an error where a value is none of its variable's."""
        variables = tuple(sorted(asked.variables))
        if not (check := self.classes.get(variables)):
            of = type(self.loaded)
            check = self.classes[variables] = make_test(of.__name__, (of,), {}, module=of.__module__)
            check._rfm_custom_prefix, check.by_itself = self.loaded.prefix, True
        for name, value in {**asked.variables, '_rfm_dry_run': 'yes'}.items():
            check.setvar(name, make_convertible(value))
        having = {name: lambda found, wanted=value: str(found) == wanted
                  for name, value in asked.parameters.items()}
        if not (numbers := check.get_variant_nums(**having)):
            raise ReframeError(f'no case of {asked.check} has {asked.parameters}; '
                               f'reframe -n {asked.check} -L lists its cases')
        return check(variant_num=numbers[0])


def _not_run(case: Any, partition: Any, wanted: str) -> str:
    """Return why no environment of a partition can run a case, or not the ``wanted`` one; '' where one can."""
    offered = runtime.valid_sysenv_comb(case.valid_systems, case.valid_prog_environs)
    if partition not in offered:
        lacking = sorted({*getattr(case, 'partition_needs', ())} - {*partition.features})
        return f'{partition.name} lacks a feature that {type(case).__name__} needs: {", ".join(lacking)}'
    if not offered[partition]:
        return not_offered(sorted(case.needs), partition.name)
    if not (environs := [environ for environ in offered[partition] if wanted in ('', environ.name)]):
        return f'no environment {wanted} of {partition.name} offers {", ".join(sorted(case.needs))}; valid: ' \
               + ', '.join(environ.name for environ in offered[partition])
    reasons = []
    for environ in environs:
        try:
            case.setup(partition, environ)
            reason = submission.of_case(case)
        except Exception:
            reason = _fault()
        if not reason:
            return ''
        reasons.append(reason)
    return reasons[0]


def _fault() -> str:
    """Return the error that is being handled: a check's own sentence as it is."""
    error = sys.exc_info()[1]
    return str(error) if isinstance(error, ReframeError) else what(*sys.exc_info()).strip().partition('\n')[0]
