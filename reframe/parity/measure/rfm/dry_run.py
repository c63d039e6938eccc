"""Set up cases that a command line could make, and run none: their checks say what a partition cannot run."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator
from functools import partial
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
    run_once = mock.patch.object(osext, 'run_command', functools.cache(osext.run_command))
    share_stage = mock.patch.object(runtime.RuntimeContext, 'make_stagedir', lambda *_: stage)
    with run_once, share_stage:
        answered = [_answer(Asked(**question), makers, partitions) for question in asked]
    return [answer.model_dump() for answer in answered]


def _answer(asked: Asked, makers: dict[str, _Maker], partitions: dict[str, Any]) -> CaseAnswer:
    if asked.check not in makers:
        return CaseAnswer(reason=unknown('check', asked.check, list(makers)))
    maker = makers[asked.check]
    for wrong, why in _wrong(type(maker.loaded), asked.variables):
        return CaseAnswer(wrong=wrong, reason=why)
    try:
        case = maker.made(asked)
    except Exception:           # whatever a hook of the check does is the case's fault
        return CaseAnswer(reason=_fault())
    metrics = [metric.name for metric in getattr(case, 'metrics', ())]
    if not asked.partition:
        return CaseAnswer(metrics=metrics)
    partition = partitions[asked.partition]
    beyond, reason = case.beyond_memory(partition) if hasattr(case, 'beyond_memory') else ('', '')
    if not reason:
        reason = _not_run(case, partition, asked.environ)
    return CaseAnswer(beyond=beyond, reason=reason, metrics=metrics)


def _wrong(check: type, variables: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each variable that a study may not set, or not to its value, with a sentence."""
    patterns = forms(check)
    valid = declared(check)
    for name, text in variables.items():
        if name not in valid:
            yield name, f'{unknown("variable", name, valid)}: a study sets what {check.__name__} declares itself'
        elif text and not re.fullmatch(patterns.get(name, '.*'), text):
            yield name, f'{text!r}: must be of the form {patterns[name]}'
        elif name not in SAME_CASE:
            why = _not_found(check, name, text)
            if why:
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
        check = self._class(tuple(sorted(asked.variables)))
        for name, value in {**asked.variables, '_rfm_dry_run': 'yes'}.items():
            check.setvar(name, make_convertible(value))
        having = {name: partial(_has_text, value) for name, value in asked.parameters.items()}
        numbers = check.get_variant_nums(**having)
        if not numbers:
            raise ReframeError(f'no case of {asked.check} has {asked.parameters}; '
                               f'reframe -n {asked.check} -L lists its cases')
        return check(variant_num=numbers[0])

    def _class(self, variables: tuple[str, ...]) -> type:
        """Return the class whose cases have these variables set."""
        if variables not in self.classes:
            loaded = type(self.loaded)
            check = make_test(loaded.__name__, (loaded,), {}, module=loaded.__module__)
            check._rfm_custom_prefix = self.loaded.prefix
            check.by_itself = True
            self.classes[variables] = check
        return self.classes[variables]


def _has_text(wanted: str, value: Any) -> bool:
    return str(value) == wanted


def _not_run(case: Any, partition: Any, wanted: str) -> str:
    """Return why no environment of a partition can run a case, or not the ``wanted`` one; '' where one can."""
    offered = runtime.valid_sysenv_comb(case.valid_systems, case.valid_prog_environs)
    if partition not in offered:
        needs = getattr(case, 'partition_needs', ())
        lacking = sorted(set(needs) - set(partition.features))
        return f'{partition.name} lacks a feature that {type(case).__name__} needs: {", ".join(lacking)}'
    needs = sorted(case.needs)
    if not offered[partition]:
        return not_offered(needs, partition.name)
    environs = [environ for environ in offered[partition] if wanted in ('', environ.name)]
    if not environs:
        valid = ', '.join(environ.name for environ in offered[partition])
        return f'no environment {wanted} of {partition.name} offers {", ".join(needs)}; valid: {valid}'
    first = ''
    for environ in environs:
        try:
            case.setup(partition, environ)
            reason = submission.of_case(case)
        except Exception:
            reason = _fault()
        if not reason:
            return ''
        first = first or reason
    return first


def _fault() -> str:
    """Return the error that is being handled: a check's own sentence as it is."""
    error = sys.exc_info()[1]
    if isinstance(error, ReframeError):
        return str(error)
    return what(*sys.exc_info()).strip().partition('\n')[0]
