"""The plan of a `reframe` command: what it would run, asked of ReFrame in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Sequence
from pathlib import Path

from parity.base import paths
from parity.base.errors import UsageError
from parity.site.plan import Asked, Plan, none_can_run


def of_system(system: str, *options: str) -> Plan:
    """Return the plan of all checks on a system."""
    return of_command(['-c', str(paths.root() / 'checks'), '-r', *options, '--system', system])


def of_command(arguments: list[str], asked: Sequence[Asked] = ()) -> Plan:
    """Return the plan of ``reframe ARGUMENTS``, with the answers to ``asked`` of the checks that it loads.
    UsageError with ReFrame's words when it refuses the arguments."""
    with tempfile.TemporaryDirectory(prefix='parity-plan-') as folder:
        file = Path(folder) / 'plan'
        Path(f'{file}.asked').write_text(json.dumps([question.model_dump() for question in asked]))
        # a debug log of its own: it must not overwrite that of the run
        environ = {'RFM_CONFIG_FILES': str(paths.root() / 'reframe' / 'settings.py'), **os.environ,
                   'PARITY_REFRAME_LOG': f'{file}.log', 'RFM_COLORIZE': 'n', 'PARITY_PLANNING': '1',
                   'RFM_STAGE_DIR': f'{file}.stage', 'RFM_CLEAN_STAGEDIR': 'n'}
        command = [sys.executable, '-m', 'parity.measure.rfm.capture', str(file), *arguments]
        done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        try:
            planned = json.loads(file.read_text())
        except (OSError, ValueError):
            raise UsageError(f'reframe refuses: {_reason(done.stdout)}') from None
    return Plan(**planned)


def _reason(printed: str) -> str:
    """Return the first lines with an error, else the last line, of what ReFrame printed."""
    lines, errors = [], []
    for line in printed.splitlines():
        line = line.strip()
        if line:
            lines.append(line)
        if 'error' in line.lower():
            errors.append(line)
    return ' '.join(errors[:3] or lines[-1:]) or 'no reason given'


def of_cases(asked: Sequence[Asked], system: str = '') -> Plan:
    """Return the plan of the checks that these cases are of, with an answer to each, in their order."""
    texts = [question.model_dump_json(include={*Asked.model_fields}) for question in asked]
    different = list(dict.fromkeys(texts))
    arguments = [*_files({question.check for question in asked}), '-r']
    if system:
        arguments += ['--system', system]
    loaded = of_command(arguments, [Asked.model_validate_json(text) for text in different])
    answers = dict(zip(different, loaded.answers, strict=True))
    return loaded.model_copy(update={'answers': [answers[text] for text in texts]})


def _files(checks: Collection[str]) -> list[str]:
    """Return the options that load these checks: their own files, or all where one has none."""
    folder = paths.root() / 'checks'
    file_of: dict[str, str] = {}
    for file in folder.rglob('*.py'):
        for name in re.findall(r'^class (\w+)\(', file.read_text(), re.M):
            file_of[name] = str(file)
    if not set(checks) <= file_of.keys():
        return ['-c', str(folder)]
    options = []
    for file in sorted({file_of[name] for name in checks}):
        options += ['-c', file]
    return options


#: Options of ReFrame that list the selected checks, alone or with what is to be listed behind them.
_LISTS = re.compile(r'-[lL][CT]?|--list(-detailed)?(=[CT])?')


def lists(argv: Sequence[str]) -> bool:
    """Return whether `reframe ARGV` lists checks."""
    return any(_LISTS.fullmatch(word) for word in argv)


def why_none(argv: Sequence[str]) -> str:
    """Return why `reframe ARGV`, which lists checks, finds none."""
    options, before = [], ''
    for word in argv:
        of_list_option = word in ('C', 'T') and _LISTS.fullmatch(before)
        if not _LISTS.fullmatch(word) and not of_list_option:
            options.append(word)
        before = word
    try:
        planned = of_command([*options, '-r'])
    except UsageError as err:
        return str(err)
    problems = [problem.what for problem in planned.problems]
    return none_can_run(planned) or '; '.join(problems)
