"""The nodes of ci/cluster, as the trial reaches into them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from parity.base.errors import InfrastructureError

TOP = Path(__file__).resolve().parents[2]
#: A fourth node would make the trial a third longer.
NODES = ('p1', 'p2', 'p3')
PAIRS = ('p1-p2', 'p2-p3')
_STATE = Path(os.environ.get('PARITY_CLUSTER_STATE', '/run/parity-cluster'))
_CGROUPS = Path('/sys/fs/cgroup')


def run(verb: str, *words: str) -> subprocess.CompletedProcess:
    """Run `ci/cluster VERB`; return how it ended, with its output."""
    return subprocess.run([TOP / 'ci' / 'cluster', verb, *words], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)


def on(node: str, *command: str) -> str:
    """Run a command on a node, outside Slurm; return its output. InfrastructureError where it fails."""
    done = run('exec', node, *command)
    if done.returncode:
        raise InfrastructureError(f'{node}: {" ".join(command)}: exit code {done.returncode}: '
                                  f'{done.stderr.strip()}')
    return done.stdout


def begin(node: str, *command: str) -> subprocess.Popen:
    """Start a command on a node in the background, in a process group of its own."""
    return subprocess.Popen([TOP / 'ci' / 'cluster', 'exec', node, *command], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def core(node: str) -> int:
    """Return the core of this machine that a node has."""
    record = json.loads((_STATE / 'state.json').read_text())
    return next(each['cores'][0] for each in record['members'] if each['name'] == node)


def demand_up() -> None:
    """Mend the cluster. InfrastructureError where it is not well then."""
    done = run('up', '--no-install')
    if done.returncode:
        raise InfrastructureError(f'ci/cluster up: {done.stderr.strip() or done.stdout.strip()}')


def processes(node: str) -> list[int]:
    """Return the processes of a node, by this machine's numbers: those that have its host name."""
    first = (_STATE / 'pids' / node).read_text().split()[0]
    name = os.readlink(f'/proc/{first}/ns/uts')
    members = []
    for entry in Path('/proc').glob('[0-9]*'):
        try:
            if os.readlink(entry / 'ns' / 'uts') == name:
                members.append(int(entry.name))
        except OSError:
            continue                        # it has ended
    return members


def limit_cpu(node: str, share: float | None, period_us: int = 100_000) -> None:
    """Let a node have a share of its core; None: all."""
    quota = -1 if share is None else round(share * period_us)
    if _is_v1():
        # a quota must fit its parent's and be no less than 1 ms
        _limit(node, 'cpu', {'cpu.cfs_quota_us': '-1'})
        _limit(node, 'cpu', {'cpu.cfs_period_us': f'{period_us}', 'cpu.cfs_quota_us': f'{quota}'})
    else:
        _limit(node, 'cpu', {'cpu.max': f'{"max" if share is None else quota} {period_us}'})


def limit_writes(node: str, folder: Path, bytes_a_second: float | None) -> None:
    """Let a node write so much a second to the disk of a folder, in so many operations of 4 KiB; None: all."""
    device = folder.stat().st_dev
    disk = f'{os.major(device)}:{os.minor(device)}'
    rate = 0 if bytes_a_second is None else round(bytes_a_second)
    if _is_v1():
        _limit(node, 'blkio', {'blkio.throttle.write_bps_device': f'{disk} {rate}'})
    else:
        _limit(node, 'io', {'io.max': f'{disk} wbps={rate or "max"}'})


def _is_v1() -> bool:
    return not (_CGROUPS / 'cgroup.controllers').exists()


def _limit(node: str, controller: str, files: dict[str, str]) -> None:
    """Write limits of a node's cgroup. Under cgroup v1 ci/cluster gives it one, and its processes are in none."""
    if not _is_v1():
        for name, text in files.items():
            (_CGROUPS / 'parity-cluster' / node / name).write_text(text)
        return
    group = _CGROUPS / controller / 'parity-cluster' / node
    for name, text in files.items():
        (group / name).write_text(text)
    for process in processes(node):
        try:
            (group / 'cgroup.procs').write_text(f'{process}')
        except OSError:
            continue                        # it has ended
