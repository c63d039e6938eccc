"""A sweep over every node of a simulated Slurm site: as many nodes as ci/bench sweeps would take minutes."""

from __future__ import annotations

import json
import re

from dev.bench import scale
from dev.bench.simulated import Site

NODES, IN_FLIGHT = 9, 4
#: How often a second ReFrame looks after the jobs here; parity's settings say once.
LOOKS = 4


class Hurried(Site):
    def environ(self) -> dict[str, str]:
        return {**super().environ(), 'RFM_POLL_RATE_MAX': str(LOOKS), 'RFM_POLL_RATE_MIN': str(LOOKS)}


def test_every_node_gets_its_word_and_slurm_is_asked_little(tmp_path, monkeypatch):
    monkeypatch.setattr(scale, 'STEPS', {name: scale.STEPS[name] for name in ('plan', 'run', 'verdict', 'report')})
    site = Hurried(tmp_path / 'simulated', NODES, IN_FLIGHT)
    steps = scale.sweep(site)
    cells = json.loads(steps['verdict'].printed)['cells']
    assert int(steps['plan'].printed) == NODES and len(cells) == 4 * NODES and scale.wrong(site, cells) == []
    assert steps['verdict'].code == 1 and steps['report'].code == 0
    for node, state in site.states.items():
        said = {c['reason'] for c in cells if c['case'].endswith(node) and c['verdict'] == 'failed'}
        want = rf'ReqNodeNotAvail, UnavailableNodes:{node}' if state == 'PENDING' else rf'time limit reached, 600 s \(job \d+ on {node}: TIMEOUT\)'
        assert said and all(re.search(want, reason) for reason in said), said
    slow, first = next(iter(site.slow)), site.names[0]
    better = [{**c, 'verdict': 'ok'} if c['case'].endswith(slow) else c for c in cells if not c['case'].endswith(first)]
    assert scale.wrong(site, better) == [f'{first}: nothing, not ok', f'{slow}: ok, not regressed'], 'ci/bench would notice'
    asked = site.asked()
    assert site.most_in_flight() == IN_FLIGHT, 'as many as the partition takes'
    # a command a job to send it, for its nodes and for its times; all in flight are asked after at once, a time a look
    assert asked['sbatch'] == NODES and asked['scontrol'] <= 2 * NODES + 10
    assert asked['sacct'] <= LOOKS * steps['run'].seconds + len(site.states)
