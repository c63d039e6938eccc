"""The picture of the README: ``python -m dev.picture [FILE.png]`` writes docs/page.png anew.

Sixty made-up nights of a system are stored and judged. Since two nights ago node c3 has lost 8.5 % of its memory
bandwidth. Chromium draws the page of the last night."""

from __future__ import annotations

import argparse
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dev.bench.browser import Browser, browser_program
from parity.judge.verdict.model import Verdict

DAY, FIRST = 86400.0, 1790000000.0
SYSTEM, PARTITION = 'example-slurm', 'cpu'
NIGHTS, BAD, RUNS = 60, 2, 3
NODES = ('c1', 'c2', 'c3', 'c4')
SLOW, SOUND = 'c3', 'c1'
WIDTH, HEIGHT = 1200, 776


class Figure(NamedTuple):
    """A metric of a case on a sound node, its noise from night to night, and its share on the slow node."""

    file: str
    case: str
    subsystem: str
    metric: str
    unit: str
    better: str
    level: float
    noise: float
    slow: float = 1.0


_STREAM = 'memory/stream/stream.py', 'Stream %threads=all', 'memory'
_NPB = 'compute/npb/npb.py', 'Npb %benchmark=mg %nodes=1', 'compute'
_HPL = 'compute/hpl/hpl.py', 'Hpl', 'compute'
_LATENCY = 'network/osu/osu.py', 'OsuLatency %benchmark=latency %where=within', 'network'
FIGURES = (
    Figure(*_STREAM, 'triad', 'MB/s', 'higher', 77_700, 0.004, 0.915),
    Figure(*_STREAM, 'copy', 'MB/s', 'higher', 74_100, 0.004, 0.918),
    Figure(*_NPB, 'mops_total', 'Mop/s', 'higher', 1530, 0.005),
    Figure(*_HPL, 'gflops', 'Gflop/s', 'higher', 2210, 0.003),
    Figure(*_LATENCY, 'latency_8B', 'us', 'lower', 0.31, 0.01),
)


def store() -> None:
    """Store the nights below PARITY_RESULTS."""
    noise = random.Random(3)
    for night in range(NIGHTS):
        began = FIRST + night * DAY
        is_bad = night >= NIGHTS - BAD
        node = SLOW if is_bad else NODES[night % len(NODES)]
        uuid = _stored(_cases(began, node, noise, FIGURES), began)
        if is_bad:
            slow = [figure for figure in FIGURES if figure.slow < 1.0]
            for again in (SLOW, SOUND):
                began += 1000
                _stored(_cases(began, again, noise, slow), began, parity_rerun_of=uuid)


def _stored(cases: list[dict[str, Any]], began: float, **info: str) -> str:
    from parity.judge.store import writing
    cases[0]['parity_session'] = _session()
    return writing.store(writing.as_report({}, cases, began, began + 900, cmdline='reframe -c checks/ -r', **info))


def _cases(began: float, node: str, noise: random.Random, measured: Sequence[Figure]) -> list[dict[str, Any]]:
    """Return the finished cases of a session on a node, in ReFrame's form."""
    is_slow = node == SLOW and began >= FIRST + (NIGHTS - BAD) * DAY
    by_case: dict[str, list[Figure]] = {}
    for figure in measured:
        by_case.setdefault(figure.case, []).append(figure)
    cases = []
    for figures in by_case.values():
        of_night = {figure: figure.level * (1 + noise.gauss(0, figure.noise)) for figure in figures}
        for run in range(RUNS):
            values = {}
            for figure, level in of_night.items():
                value = level * (1 + noise.gauss(0, figure.noise / 4)) * (figure.slow if is_slow else 1.0)
                values[f'{SYSTEM}:{PARTITION}:{figure.metric}'] = [value, 0, None, None, figure.unit, 'pass']
            cases.append(_case(figures, values, began + 200 * run, node, is_slow))
    return cases


def _case(figures: list[Figure], values: dict[str, list], ended: float, node: str, is_slow: bool
          ) -> dict[str, Any]:
    first = figures[0]
    kernel = '6.1.192' if is_slow else '6.1.187'
    noted = {figure.metric: {'unit': figure.unit, 'better': figure.better, 'limit': None, 'ceiling': None}
             for figure in figures}
    record = {'journal': 'picture', 'subsystem': first.subsystem, 'size': 'nightly', 'needs': [], 'metrics': noted,
              'software': {'provider': 'spack', 'identity': 'made up'}, 'labels': {}, 'left_out': {},
              'node': {'node': node, 'kernel': kernel, 'processor': 'made up', 'virtualisation': 'none'}}
    return {'name': first.case, 'display_name': first.case, 'unique_name': first.case, 'system': SYSTEM,
            'partition': PARTITION, 'environ': 'spack', 'result': 'pass', 'fail_phase': None, 'fail_reason': None,
            'fixture': False, 'perfvalues': values, 'job_nodelist': [node], 'jobid': '17', 'time_run': 60.0,
            'job_completion_time_unix': ended, 'outputdir': '/made-up', 'stagedir': '/made-up', 'parity': record,
            'parity_session': {}}


def _session() -> dict[str, Any]:
    """Return the plan and the facts of a night."""
    cases: dict[str, dict[str, Any]] = {}
    for figure in FIGURES:
        planned = cases.setdefault(figure.case, {
            'check': figure.case.split()[0], 'case': figure.case, 'unique_name': figure.case,
            'subsystem': figure.subsystem, 'size': 'nightly', 'file': f'checks/{figure.file}', 'needs': [],
            'system': SYSTEM, 'partition': PARTITION, 'environ': 'spack', 'metrics': []})
        planned['metrics'].append({'name': figure.metric, 'unit': figure.unit, 'better': figure.better})
    plan = {'system': SYSTEM, 'providers': ['spack'], 'checks': [], 'problems': [], 'cases': list(cases.values())}
    return {'id': 'picture', 'announcement': 'made up', 'facts': {'machine': {'hostname': 'login'}}, 'plan': plan}


def judged() -> Verdict:
    """Judge the last night, and record its incident as a night does."""
    from parity.judge.verdict import incidents, judge
    incidents.record(judge.newest(), SYSTEM)
    return judge.newest()


def draw(file: Path) -> None:
    """Write the picture of the last night's page."""
    from parity.judge import report
    page = report.of_session(judged())[0]
    with Browser(browser_program()) as browser:
        browser.look(WIDTH, HEIGHT)
        browser.open(page)
        browser.picture(file)


def main(file: Path) -> int:
    if browser_program() is None:
        print('no Chromium here (apt-get install chromium)')
        return 4
    with tempfile.TemporaryDirectory(prefix='parity-picture-') as results:
        os.environ['PARITY_RESULTS'] = results
        store()
        draw(file)
    print(file)
    return 0


if __name__ == '__main__':
    parser = argparse.ArgumentParser(prog='python -m dev.picture', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('file', nargs='?', type=Path, default=Path('docs/page.png'))
    raise SystemExit(main(parser.parse_args().file))
