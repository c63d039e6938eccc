"""Variables of a check that the command line set away from their defaults, as ReFrame's classes keep them."""

from __future__ import annotations

from typing import Any

from reframe.core.fields import make_convertible, remove_convertible

from parity.site.identity import suffix, word

#: Variables that do not change what is measured: they say who looks after a check, which cases are selected,
#: how long a job may take and what ReFrame keeps. `size` is a part of every cell's identity already.
#: Every other variable that the command line sets away from its default makes another case.
SAME_CASE = frozenset({
    'size', 'descr', 'tags', 'maintainers', 'valid_systems', 'valid_prog_environs', 'time_limit',
    'build_time_limit', 'max_pending_time', 'keep_files', 'strict_check', 'require_reference', 'ci_extras',
    '_rfm_dry_run'})
#: Where a class keeps the defaults of the variables that the command line set.
_DEFAULTS = '_parity_defaults'


def remember_default(check: type, name: str, value: Any) -> None:
    """Keep the default of the variable ``name`` of the class ``check``, before -S sets it to ``value``. ReFrame
    sets what a class body says in the same way: only -S gives text to be converted, or None (@none)."""
    if value is not None and remove_convertible(value) is value:
        return
    space = vars(check).get('_rfm_var_space')       # None while the class is being made
    known = vars(check).get(_DEFAULTS, {})
    if space is not None and name in space and name not in known:
        type.__setattr__(check, _DEFAULTS, {**known, name: space[name]._default_value})


def changed(check: Any) -> dict[str, str]:
    """The variables of ``check``, an instance, that -S or -P set away from the default: values as a name has them.
    What a hook of the check sets does not count. Sorted by name."""
    cls = type(check)
    defaults = _defaults(cls)
    values = {name: cls.var_space[name]._default_value for name in defaults}
    for name in _swept(cls):
        variable = cls.var_space[name]
        defaults.setdefault(name, variable._default_value)
        values[name] = variable.field.__set__(None, make_convertible(getattr(check, f'.{name}')))
    words = {}
    for name in sorted(values):
        if name not in SAME_CASE and values[name] != defaults[name]:
            words[name] = word(values[name])
    return words


def display_name(check: Any) -> str:
    """ReFrame's name of ``check``, which has what -P made a parameter of, with what -S changed at its end."""
    changes = changed(check)
    if not changes:
        return check.display_name
    swept = _swept(type(check))
    lacking = {name: value for name, value in changes.items() if name not in swept}
    return check.display_name + suffix(lacking)


def declared(own: type) -> list[str]:
    """Return the variables that a study may set, sorted: those that a check or a class below it declares.

    ReFrame's own may hold commands of a shell, and say what runs. Of these only the time limit is among them."""
    of_reframe = {'parity'}         # what a case keeps of itself
    for base in own.__mro__:
        if base.__module__.partition('.')[0] == 'reframe':
            of_reframe.update(getattr(base, 'var_space', ()))
    of_checks = set(own.var_space) - of_reframe
    return sorted(of_checks | {'time_limit'})


def stored_as(own: type, name: str, text: str) -> str:
    """Return what stands in a case's name for a variable that the command line sets to ``text``."""
    return word(own.var_space[name].field.__set__(None, make_convertible(text)))


def forms(own: type) -> dict[str, str]:
    """Return the pattern of each variable of a check that is text of one form."""
    patterns = {}
    for name, variable in own.var_space.items():
        kinds = getattr(variable.field, '_types', None)
        pattern = getattr(kinds[-1], '_elem_type', None) if kinds else None
        if isinstance(pattern, str):
            patterns[name] = pattern
    return patterns


def parameter(own: type, name: str) -> Any:
    """Return a parameter of a check as its class declares it: -P made a class of the same name below that. None
    where it declares none of that name."""
    for base in own.__mro__[1:]:
        params = getattr(getattr(base, 'param_space', None), 'params', {})
        if base.__name__ == own.__name__ and name in params:
            return params[name]
    return None


def undeclared(check: Any) -> str:
    """Return a sentence on a parameter of words to which -P gave one that the check does not have; '' for none."""
    own = type(check)
    for name in own.param_space.params:
        words = parameter(own, name)
        if words and words.type is str and getattr(check, name) not in words.values:
            return f'{name}={getattr(check, name)}: valid are {", ".join(words.values)}'
    return ''


def _defaults(own: type) -> dict[str, Any]:
    """Return the defaults that -S replaced in the class, or in a base before the class was made. -P and --repeat
    make a class of the same name."""
    replaced = {}
    for base in own.__mro__:
        for name, value in vars(base).get(_DEFAULTS, {}).items():
            default = replaced.get(name, own.var_space[name]._default_value)
            is_inherited = default == base.var_space[name]._default_value
            if is_inherited or base.__name__ == own.__name__:
                replaced[name] = value
    return replaced


def _swept(own: type) -> set[str]:
    """The variables that -P made parameters of: ReFrame calls the parameter .NAME."""
    dotted = [name.removeprefix('.') for name in own.param_space.params if name.startswith('.')]
    return {name for name in dotted if name in own.var_space}
