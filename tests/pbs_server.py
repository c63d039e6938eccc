"""What a real OpenPBS printed (recorded/pbs), and commands that print it again."""

from __future__ import annotations

import json
import shlex

from conftest import TOP

RECORDED = TOP / 'tests' / 'recorded' / 'pbs'
COMMANDS = json.loads((RECORDED / 'commands.json').read_text())


def printed(name: str) -> dict:
    """Return the answer of a command that prints a recorded file."""
    return {'stdout': (RECORDED / f'{name}.txt').read_bytes() if name else b'', 'stderr': '', 'exit_code': 0}


def at(folder, monkeypatch):
    """Put commands into ``folder`` that answer as the real ones did: {the options of the question: the answer}."""
    monkeypatch.setenv('PATH', f'{folder}:/usr/bin:/bin')

    def answers(name: str, cases: dict[str, dict]) -> None:
        lines = ['#!/bin/bash', 'case " $* " in']
        for options, said in cases.items():
            for stream in ('stdout', 'stderr'):
                raw = said[stream] if isinstance(said[stream], bytes) else said[stream].encode()
                (folder / f'{options}.{stream}').write_bytes(raw)
            files = [shlex.quote(str(folder / f'{options}.{stream}')) for stream in ('stdout', 'stderr')]
            lines.append(f'*{shlex.quote(f" {options} ")}*) cat {files[0]}; cat {files[1]} >&2; exit {said["exit_code"]} ;;')
        (folder / name).write_text('\n'.join([*lines, '*) echo unexpected: "$*" >&2; exit 99', 'esac', '']))
        (folder / name).chmod(0o755)
    return answers
