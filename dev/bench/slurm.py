"""Stand-ins for Slurm's commands: a site of any number of nodes, whose jobs end at once.

    python slurm.py FOLDER sbatch|sacct|squeue|scancel|scontrol ARGUMENTS...

``simulated`` writes FOLDER. ``nodes.txt`` holds the output of `scontrol show -o nodes`. ``site.json`` holds the
output of a job's program by node ('': all others), and the end states on bad nodes. Questions that neither
ReFrame nor parity asks are refused.
"""

import json
import re
import sqlite3
import sys
import time
from pathlib import Path

#: `beside`: the jobs in flight when this one was submitted, itself included. `told`: sacct has reported its end.
_TABLES = ('CREATE TABLE IF NOT EXISTS jobs(id INTEGER PRIMARY KEY, node TEXT, state TEXT, end INTEGER,'
           ' beside INTEGER, told INTEGER DEFAULT 0)',
           'CREATE TABLE IF NOT EXISTS asked(command TEXT)')


def jobs(folder: Path) -> sqlite3.Connection:
    """Open the tables `jobs` and `asked`, which has a row for each call of a command."""
    database = sqlite3.connect(folder / 'jobs.db', timeout=60, isolation_level=None)
    for table in _TABLES:
        database.execute(table)
    return database


def sbatch(folder: Path, script: str) -> None:
    asked = dict(re.findall(r'^#SBATCH --(output|error|nodelist)=(\S+)', Path(script).read_text(), re.M))
    site = json.loads((folder / 'site.json').read_text())
    node = asked['nodelist']
    state = site['states'].get(node, 'COMPLETED')
    if state != 'PENDING':
        printed = site['outputs'].get(node, site['outputs'][''])
        Path(asked['output']).write_text(Path(printed).read_text())
        Path(asked['error']).touch()
        Path('node.txt').write_text(f'node: {node}\n')
    row = jobs(folder).execute(
        'INSERT INTO jobs(node, state, end, beside)'
        ' VALUES (?, ?, ?, (SELECT count(*) + 1 FROM jobs WHERE NOT told)) RETURNING id',
        (node, state, int(time.time()))).fetchone()
    print(f'Submitted batch job {row[0]}')


def sacct(folder: Path, *arguments: str) -> None:
    found = _asked(folder, arguments[arguments.index('-j') + 1])
    if arguments[-1] == 'Reason':
        print('\n'.join('None' if state == 'COMPLETED' else 'ReqNodeNotAvail' for _, _, state, _ in found))
        return
    print('JobID|State|ExitCode|End|NodeList')
    for number, node, state, end in found:
        where = 'None assigned' if state.startswith(('PENDING', 'CANCELLED')) else node
        print(f'{number}|{state}|0:0|{end if state != "PENDING" else "Unknown"}|{where}')
    ended = [(number,) for number, _, state, _ in found if state != 'PENDING']
    database = jobs(folder)
    database.execute('BEGIN')
    database.executemany('UPDATE jobs SET told = 1 WHERE id = ?', ended)
    database.execute('COMMIT')


def squeue(folder: Path, *arguments: str) -> None:
    for number, node, state, _ in _asked(folder, arguments[arguments.index('-j') + 1]):
        if state == 'PENDING':
            print(f'{number}|ReqNodeNotAvail, UnavailableNodes:{node}')


def scancel(folder: Path, *numbers: str) -> None:
    jobs(folder).executemany("UPDATE jobs SET state = 'CANCELLED by 0' WHERE id = ? AND state = 'PENDING'",
                             [(number,) for number in numbers])


def scontrol(folder: Path, *arguments: str) -> None:
    if arguments == ('-a', 'show', '-o', 'nodes'):
        print((folder / 'nodes.txt').read_text(), end='')
    elif arguments[:2] == ('show', 'hostname'):
        print('\n'.join(name for name in arguments[2:] if arguments[2:] != ('None', 'assigned')))
    elif arguments[:3] == ('--oneliner', 'show', 'job'):
        for number, node, state, end in _asked(folder, arguments[3]):
            at = time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(end))
            print(f'JobId={number} JobName=bench UserId=root(0) JobState={state.split()[0]} Reason=None '
                  f'ExitCode=0:0 RunTime=00:00:00 SubmitTime={at} StartTime={at} EndTime={at} NodeList={node}')
    else:
        sys.exit(f'scontrol: unknown question: {" ".join(arguments)}')


def _asked(folder: Path, numbers: str) -> list[tuple]:
    marks = ','.join('?' * (numbers.count(',') + 1))
    return jobs(folder).execute(f'SELECT id, node, state, end FROM jobs WHERE id IN ({marks})',
                                numbers.split(',')).fetchall()


COMMANDS = {command.__name__: command for command in (sbatch, sacct, squeue, scancel, scontrol)}

if __name__ == '__main__':
    here, name, *words = sys.argv[1:]
    jobs(Path(here)).execute('INSERT INTO asked VALUES (?)', (name,))
    COMMANDS[name](Path(here), *words)
