"""The site's modules: an environment is what a login shell has after `module load`."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from typing import NamedTuple

from parity.software.probe import attempt

_MARK = '--parity-environment--'
_NO_MODULES = 40
#: A login shell on a large site reads much before it answers.
_TIMEOUT = 30.0


class Loaded(NamedTuple):
    """The variables after loading, or None and why not."""

    env: dict[str, str] | None
    why: str = ''


def load(modules: Collection[str], env: Mapping[str, str]) -> Loaded:
    """Load ``modules`` in a login shell and take its environment.

    `module load` of a module that is not there exits with 0 in some systems, and the program may
    then be the distribution's: LOADEDMODULES (Lmod and Environment Modules keep it) decides.
    """
    words = ' '.join(shlex.quote(name) for name in modules)
    script = f'type module >/dev/null 2>&1 || exit {_NO_MODULES}\n' \
             f'module load {words} >&2\nprintf %s {shlex.quote(_MARK)}; exec env -0'
    said = attempt(['bash', '-lc', script], env, _TIMEOUT)
    if said.why.startswith(f'exit code {_NO_MODULES}'):
        return Loaded(None, 'there is no module system here')
    before, mark, after = said.out.partition(_MARK)
    if not said.ok or not mark:
        return Loaded(None, said.why or 'the login shell did not get as far as printing its environment')
    found = dict(entry.split('=', 1) for entry in after.split('\0') if '=' in entry)
    loaded = found.get('LOADEDMODULES', '').split(':')
    missing = [name for name in modules if not any(m == name or m.startswith(name + '/') for m in loaded)]
    if missing:
        return Loaded(None, f'module load did not load {", ".join(missing)}')
    return Loaded(found)
