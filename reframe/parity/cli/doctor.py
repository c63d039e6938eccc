"""`parity doctor`: is a system ready for its nights?"""

from __future__ import annotations

import json

import typer

from parity.cli.common import JSON

SYSTEM = typer.Option('', '--system', help="The system; by default this host's.")
_STYLES = {'ok': 'green', 'note': 'yellow', 'lacking': 'bold red'}


def run(system: str = SYSTEM, as_json: bool = JSON) -> int:
    """List what the nightly needs: what is there, what is missing, and how to fix it.

    \b
    parity doctor --system onebox

    Exit code: 0 the nightly could run, 2 configuration, 3 something is missing, 4 infrastructure."""
    from rich.text import Text

    from parity.base import findings
    from parity.base.colours import Console
    from parity.base.text import visible
    from parity.nightly import doctor
    from parity.site import systems
    name = system or systems.named([])
    systems.existing(name)
    found, console = [], Console(soft_wrap=True, highlight=False, emoji=False)
    for finding in doctor.findings(name):       # each is printed as it is found out
        found.append(finding)
        if as_json:
            continue
        line = Text(f'{finding.word:8}', style=_STYLES[finding.word])
        console.print(line.append(visible(f'{finding.area:20} {finding.what}'), style='none'))
        for more in filter(None, (finding.file, finding.fix)):
            console.print(Text(visible(f'{"":29}{more}'), style='dim'))
    code = findings.exit_code(found)
    if as_json:
        print(json.dumps({'system': name, 'exit_code': code, 'findings': [vars(f) for f in found]}, indent=1))
    else:
        print(findings.answer(name, found))
    return code
