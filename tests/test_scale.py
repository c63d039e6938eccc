"""A sweep over every node of a simulated Slurm site: as many nodes as ci/bench sweeps would take minutes."""

from __future__ import annotations

import json
import re

import pytest

from dev.bench import scale
from dev.bench.simulated import Site

NODES, IN_FLIGHT = 12, 6
#: How often a second ReFrame looks after the jobs here; parity's settings say once.
LOOKS = 4


class Hurried(Site):
    def environ(self) -> dict[str, str]:
        return {**super().environ(), 'RFM_POLL_RATE_MAX': str(LOOKS), 'RFM_POLL_RATE_MIN': str(LOOKS)}


@pytest.fixture(scope='module')
def swept(tmp_path_factory):
    """The site, what each step printed, and the cells of the verdict."""
    site = Hurried(tmp_path_factory.mktemp('simulated'), NODES, IN_FLIGHT)
    steps = scale.sweep(site)
    return site, steps, json.loads(steps['verdict'].printed)['cells']


def test_every_node_is_planned_and_gets_its_word(swept):
    site, steps, cells = swept
    assert int(steps['plan'].printed) == NODES and len(cells) == 4 * NODES and scale.wrong(site, cells) == []
    assert steps['verdict'].code == 1 and steps['report'].code == 0
    for node, state in site.states.items():
        said = {c['reason'] for c in cells if c['case'].endswith(node) and c['verdict'] == 'failed'}
        want = rf'ReqNodeNotAvail, UnavailableNodes:{node}' if state == 'PENDING' else rf'time limit reached, 600 s \(job \d+ on {node}: TIMEOUT\)'
        assert said and all(re.search(want, reason) for reason in said), said


def test_slurm_is_asked_little_and_has_no_more_jobs_than_the_partition_takes(swept):
    site, steps, _ = swept
    asked = site.asked()
    assert site.most_in_flight() == IN_FLIGHT
    # a command a job to send it, for its nodes and for its times; all in flight are asked after at once, a time a look
    assert asked['sbatch'] == NODES and asked['scontrol'] <= 2 * NODES + 10
    assert asked['sacct'] <= LOOKS * steps['run'].seconds + len(site.states)


def test_a_verdict_that_is_not_as_the_site_was_made_is_noticed(swept):
    site, _, cells = swept
    slow = next(iter(site.slow))
    better = [{**c, 'verdict': 'ok'} if c['case'].endswith(slow) else c for c in cells]
    assert scale.wrong(site, better) == [f'{slow}: ok, not regressed']
    assert scale.wrong(site, [c for c in cells if not c['case'].endswith(site.names[0])]) == [f'{site.names[0]}: nothing, not ok']
