"""Which runs are of one case: its check, its parameters, and every variable that the command line changed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any

_REPEAT = re.compile(r' %\.repeat_no=\d+')
#: Variables that do not change what is measured: they say who looks after a check, which cases are selected,
#: how long a job may take and what ReFrame keeps of it. `size` is a part of every cell's identity already.
#: Every other variable that the command line sets away from its default makes another case.
SAME_CASE = frozenset({
    'size', 'descr', 'tags', 'maintainers', 'valid_systems', 'valid_prog_environs', 'time_limit',
    'build_time_limit', 'max_pending_time', 'keep_files', 'strict_check', 'require_reference', 'ci_extras',
    '_rfm_dry_run'})
#: Where a class keeps the defaults of the variables that the command line set.
_DEFAULTS = '_parity_defaults'
#: What would end a part of a case's name, or a column of a perflog.
_SEPARATOR = re.compile(r'[\s%|]')


def case_name(display_name: str) -> str:
    """The name of a case: its check and every parameter, those of -P included; repeats (--repeat) are one case."""
    return _REPEAT.sub('', display_name).replace(' %.', ' %')


def remember_default(check: type, name: str, value: Any) -> None:
    """Keep the default of the variable ``name`` of the class ``check``, before -S sets it to ``value``.

    ReFrame sets what a class body says in the same way: only -S gives text to be converted, or None (@none).
    """
    from reframe.core.fields import remove_convertible
    if value is not None and remove_convertible(value) is value:
        return
    space = vars(check).get('_rfm_var_space')       # None while the class is being made
    known = vars(check).get(_DEFAULTS, {})
    if space is not None and name in space and name not in known:
        type.__setattr__(check, _DEFAULTS, {**known, name: space[name]._default_value})


def changed(check: Any) -> dict[str, str]:
    """The variables of ``check``, an instance, that -S or -P set away from the default: values as a name has them.

    What a hook of the check sets does not count. Sorted by name.
    """
    from reframe.core.fields import make_convertible  # who only judges does not wait for ReFrame
    own = type(check)
    defaults = _defaults(own)
    values = {name: own.var_space[name]._default_value for name in defaults}
    for name in _swept(own):
        variable = own.var_space[name]
        defaults.setdefault(name, variable._default_value)
        values[name] = variable.field.__set__(None, make_convertible(getattr(check, f'.{name}')))
    return {name: _word(values[name]) for name in sorted(values)
            if name not in SAME_CASE and values[name] != defaults[name]}


def display_name(check: Any) -> str:
    """ReFrame's name of ``check``, which has what -P made a parameter of, with what -S changed at its end."""
    swept = _swept(type(check))
    return check.display_name + suffix({k: v for k, v in changed(check).items() if k not in swept})


def suffix(values: Mapping[str, str]) -> str:
    return ''.join(f' %{name}={value}' for name, value in values.items())


def swept_apart(case: str, names: Collection[str]) -> tuple[str, list[str]]:
    """The case without what -P made of the variables ``names``, and those parts of it: 'nodes=2'.

    ReFrame selects by -n before it makes them parameters: they are not in its names then.
    """
    parts = case.split(' %')
    swept = [part for part in parts[1:] if part.partition('=')[0] in names]
    return ' %'.join(part for part in parts if part not in swept), swept


def _defaults(own: type) -> dict[str, Any]:
    """-P and --repeat make classes of the same name from the one that -S was applied to."""
    return {name: value for base in own.__mro__ if base.__name__ == own.__name__
            for name, value in vars(base).get(_DEFAULTS, {}).items()}


def _swept(own: type) -> set[str]:
    """The variables that -P made parameters of."""
    return {name[1:] for name in own.param_space.params if name[0] == '.' and name[1:] in own.var_space}


def _word(value: Any) -> str:
    """A value as one word of a case's name."""
    if isinstance(value, bool):
        return 'yes' if value else 'no'
    if isinstance(value, Mapping):
        value = [f'{key}:{each}' for key, each in value.items()]
    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    said = ','.join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return _SEPARATOR.sub(lambda found: f'%{ord(found[0]):02X}', said)


def renamed(report: dict[str, Any]) -> dict[str, Any]:
    """A stored session with its cases named as today: older ones noted a changed placement beside the name."""
    names: dict[tuple[str, str, str], str] = {}
    for run in report['runs']:
        for raw in run['testcases']:
            record = raw.get('parity') or {}
            if not (told := record.get('unusual')):
                continue
            told = told if isinstance(told, dict) else {'unusual': 'yes'}
            record['changed'] = {name: _word(value) for name, value in told.items()}
            name = raw.get('display_name') or raw['name']
            lacking = {k: v for k, v in record['changed'].items() if f' %{k}=' not in case_name(name)}
            raw['display_name'] = name + suffix(lacking)
            names[case_name(name), raw['partition'], raw['environ']] = case_name(raw['display_name'])
    if names:
        kept = [report.get('parity_session'), *(raw.get('parity_session') for run in report['runs']
                                                for raw in run['testcases'])]
        for case in (case for session in kept if session for case in session['plan']['cases']):
            case['case'] = names.get((case['case'], case['partition'], case['environ']), case['case'])
    return report


@cache
def version(file: str) -> str:
    """The version of a check: a hash of its file's text. Two that differ may measure different things."""
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()[:12]
