"""Templates: jobs/*.j2, or the site's own of the same name in systems/<name>/jobs/."""

from __future__ import annotations

import os
import re
import shlex
import traceback
from typing import Any

import jinja2

from parity.base import characters, errors, paths
from parity.jobs.request import Request

#: What a job needs of the environment that it is rendered in: schedulers start jobs in another.
CARRIED = ('PARITY_RESULTS', 'PARITY_SOFTWARE_BUNDLE', 'SPACK_ROOT', 'SPACK_USER_CONFIG_PATH',
           'SPACK_USER_CACHE_PATH')
#: What may stand in a script as it is: no white space, no quote, nothing that a shell expands.
_PLAIN = re.compile(r'[A-Za-z0-9_./:=,@%+-]*')


class _Quoted(str):
    """Text that a shell, or a comment of the scheduler's, takes as it is."""


def _sh(value: Any) -> _Quoted:
    """The filter `sh`: one word of the shell, whatever it holds."""
    return _Quoted(shlex.quote(str(value)))


def _option(value: str) -> _Quoted:
    """The filter `option`: a directive, which stands in a comment. A line break would end it."""
    if re.search(r'[\x00-\x1f\x7f]', value):
        raise errors.UsageError(f'{value!r}: an option of a scheduler is one line')
    return _Quoted(value)


def _lines(value: str) -> _Quoted:
    """The filter `script`: text that is shell already, such as ReFrame's own script of a case."""
    return _Quoted(value)


def _finalize(value: Any) -> Any:
    """Every value that a template prints is a number, plain, or went through a filter: no template can forget."""
    if isinstance(value, (_Quoted, int, float, jinja2.Undefined)):
        return value
    if isinstance(value, str) and _PLAIN.fullmatch(value):
        return value
    raise errors.UsageError(f'{value!r}: a job script takes it only quoted (in the template: | sh)')


def script(job: str, system: str, request: Request, **values: Any) -> str:
    """The script of ``job``. UsageError naming file and line of a template that is wrong, or the line of the
    script in which a character is that none may hold."""
    folders = [str(paths.root() / 'systems' / system / 'jobs'), str(paths.root() / 'jobs')]
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.FileSystemLoader(folders),
                                    jinja2.PrefixLoader({'parity': jinja2.FileSystemLoader(folders[1])})]),
        undefined=jinja2.StrictUndefined, finalize=_finalize, trim_blocks=True, lstrip_blocks=True,
        keep_trailing_newline=True, autoescape=False)
    environment.filters.update(sh=_sh, option=_option, script=_lines)
    environ = {name: os.environ[name] for name in CARRIED if os.environ.get(name)}
    try:
        text = environment.get_template(f'{job}.sh.j2').render(
            job=request, system=system, checkout=str(paths.root()), environ=environ, **values)
    except jinja2.TemplateSyntaxError as err:
        raise errors.UsageError(f'{err.filename or err.name}:{err.lineno}: {err.message}') from None
    except jinja2.TemplateNotFound as err:
        raise errors.UsageError(f'{_line_of(err) or job}: no template {err.name}; they are in '
                                f'{" and ".join(folders)}') from None
    except jinja2.TemplateError as err:
        raise errors.UsageError(f'{_line_of(err) or job}: {err.message}') from None
    for number, line in enumerate(text.split('\n'), 1):
        characters.refuse(f'line {number} of the script of {job}: {ascii(line)[1:81]}', line)
    return text


def _line_of(error: jinja2.TemplateError) -> str:
    """file:line of the template in which a value was wrong; '' where none is known."""
    at = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith('.j2')]
    return f'{at[-1].filename}:{at[-1].lineno}' if at else ''
