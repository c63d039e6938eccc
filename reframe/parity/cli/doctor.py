"""`parity doctor`."""

from __future__ import annotations

import json
import sys

from rich.text import Text

from parity.base.console import Console
from parity.base.errors import UsageError
from parity.base.text import visible
from parity.nightly.doctor import Finding, examine, exit_code
from parity.system import systems

_STYLES = {'ok': 'green', 'note': 'yellow', 'lacking': 'bold red'}
_WORDS = {2: 'configuration', 3: 'something is missing', 4: 'infrastructure'}


def run(name: str, as_json: bool) -> int:
    """Print each finding as it is found out; returns the exit code."""
    name = name or systems.named([])
    if name not in systems.names():
        raise UsageError(f'unknown system {name!r}; valid: {", ".join(systems.names())}')
    found, console = [], Console(soft_wrap=True, highlight=False, emoji=False)
    for finding in examine.findings(name):
        found.append(finding)
        if not as_json:
            _tell(finding, console)
    code = exit_code(found)
    if as_json:
        told = {'system': name, 'exit_code': code, 'findings': [vars(f) for f in found]}
        sys.stdout.write(json.dumps(told, indent=1) + '\n')
    else:
        print(_last(name, found, code))
    return code


def _tell(finding: Finding, console: Console) -> None:
    line = Text(f'{finding.word:8}', style=_STYLES[finding.word])
    console.print(line.append(visible(f'{finding.area:20} {finding.what}'), style='none'))
    if finding.mend:
        console.print(Text(visible(f'{"":29}{finding.mend}'), style='dim'))


def _last(name: str, found: list[Finding], code: int) -> str:
    if not code:
        return f'the nightly of {name} could run: ci/nightly --system {name}'
    lacking = sum(f.word == 'lacking' for f in found)
    return f'the nightly of {name} could not run: {lacking} lacking (exit code {code}: {_WORDS[code]})'
