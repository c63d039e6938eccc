"""Words that no figure showed: what --quick cut, a knee without a gain to judge, two sides of one device."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from commands import parity
from conftest import TOP
from parity.judge.compare.model import Value
from parity.study import devices, published
from parity.study.published import findings
from parity.study.published.figures import StudyCell


def measured(experiment, metric, point, values, better='higher'):
    """A cell whose runs are of one repeat each: pairs with those of other cells."""
    runs = [Value(float(value), session=f'{point}{number}') for number, value in enumerate(values)]
    turns = {run.session: str(number) for number, run in enumerate(runs)}
    return StudyCell(experiment, metric, point, '', better, runs, turns=turns)


def word(study, finding, cells, quick=False, one=''):
    judged = next(f for f in findings.analysed(published.read(study), [], cells, quick, one).findings if f.id == finding)
    return judged.here, judged.why_here


def test_what_quick_cuts_and_a_finding_counts_gives_no_word():
    """Quick takes 10 seconds where print has 600: 14 of 60 seconds dip, and the bound is of 3,600."""
    dips = [measured('ops_over_time', 'dips', {'number': number}, values, '') for number, values in (('GFLOPS', [2, 3, 2]), ('GIOPS', [2, 2, 3]))]
    assert word('liu2017', 'few-dips', dips, quick=True) == ('not testable', '--quick cuts what it counts: samples=10')
    assert word('liu2017', 'few-dips', dips) == ('holds', '14, exact (in 6 runs)')


def chunks(gain, noise=.01):
    rng = np.random.default_rng(4)
    levels = {'4KiB': .8, '32KiB': 1.0, '256KiB': 1.0, '1MiB': gain}
    return [measured('chunks', 'rate', {'filesystem': 'shared', 'mode': mode, 'file': '100MB', 'chunk': chunk}, level * (1 + noise * rng.normal(size=3)))
            for mode in ('read', 'read-write') for chunk, level in levels.items()]


@pytest.mark.parametrize('gain, noise, expected', [(1.57, .005, 'does not hold'), (1.0, .002, 'holds'), (1.0, .2, 'not testable')])
def test_a_chunk_that_gains_57_percent_is_no_chunk_that_gains_nothing(gain, noise, expected):
    found, why = word('raicu', 'chunks-gain-nothing', chunks(gain, noise))
    assert found == expected and '95 % for all 4 at once' in why and 'MiB/32KiB' in why, why


def test_a_true_flat_from_8_nodes_is_seldom_called_false_at_10_percent_noise():
    rng, words = np.random.default_rng(8), []
    for _ in range(60):
        cells = [measured('files', 'rate', {'filesystem': 'shared', 'mode': 'read', 'file': '1MB', 'nodes': nodes}, 100 * min(int(nodes), 8) * (1 + .1 * rng.normal(size=3)))
                 for nodes in ('4', '8', '16', '32', '64')]
        words.append(word('raicu', 'large-files-saturate', cells)[0])
    assert words.count('does not hold') <= 4, words.count('does not hold')


def test_two_folders_of_one_disk_are_one_device(tmp_path, monkeypatch):
    for folder in ('a', 'b'):
        (tmp_path / folder).mkdir()
    assert devices.of_directory(f'{tmp_path}/a') == devices.of_directory(f'{tmp_path}/b/not made/yet') != ''
    assert devices.of_directory('/proc') != devices.of_directory(str(tmp_path))
    number = Path(tmp_path).stat().st_dev
    mounts = tmp_path / 'mountinfo'
    mounts.write_text(f'1 1 {number >> 8}:{number & 255} / / rw - nfs4 fs1:/export/a rw\n')
    monkeypatch.setattr(devices, '_MOUNTS', mounts)
    monkeypatch.setattr(devices.os, 'major', lambda number: number >> 8)
    monkeypatch.setattr(devices.os, 'minor', lambda number: number & 255)
    assert devices.of_directory(f'{tmp_path}/a') == 'server fs1'


def test_one_device_stands_behind_each_word_that_was_measured_on_it():
    from parity.study import compared
    judged = next(f for f in findings.analysed(published.read('raicu'), [], chunks(1.57, .005), one='one device').findings if f.id == 'chunks-gain-nothing')
    assert compared.judged(judged, here=True)[0] == 'does not hold (one device)' and compared.judged(judged)[0] == 'not printed'
    assert judged.model_dump()['one'] == 'one device'


def test_every_decided_word_in_print_has_an_interval():
    for name in ('jungels2012', 'liu2017', 'murphy2007', 'raicu', 'tessera'):
        for finding in json.loads(parity('study', 'compare', name, '--json').stdout)['findings']:
            if finding['published'] in ('holds', 'does not hold'):
                why = finding['why_published']
                assert '[' in why or 'exact' in why, (name, finding['id'], why)
                assert 'without an interval' not in why and 'no interval' not in why, (name, finding['id'], why)
    assert (TOP / 'studies').is_dir()


#: The table of docs/studies.md: what the sentence says, and the bounds of its ratio.
BOUNDS = {'closely': (.9, 1.1), 'very similar': (.9, 1.1), 'almost': (.9, 1.1), 'similarly': (.83, 1.2), 'nearly half': (.4, .6), 'roughly half': (.4, .6),
          'nearly doubles': (1.8, None), 'substantially': (.8, 1.2), 'considerably': (.8, 1.2), 'not substantially': (.8, 1.2)}


def test_a_word_has_one_bound_in_all_studies():
    text = (TOP / 'docs' / 'studies.md').read_text()
    assert all(word in text for word in BOUNDS if word not in ('almost', 'not substantially'))
    judged = 0
    for name in published.names():
        for finding in published.read(name).findings:
            quoted = finding.bound.partition("ours: '")[2].partition("'")[0]
            if quoted not in BOUNDS or finding.kind not in ('ratio', 'value'):
                continue
            judged += 1
            stated = {*finding.bounds.values()} - ({1.0} if finding.above == 1 else set())
            assert stated <= {*BOUNDS[quoted]}, (name, finding.id, finding.bounds)
    assert judged > 10


def test_the_page_counts_what_was_measured_before_what_could_be():
    from parity.study import compared
    study = published.read('raicu')
    none, _ = compared.experiments(study)
    counts, _ = compared.experiments(study, chunks(1.0))
    assert none.startswith('2') and 'measured' not in none
    assert counts.startswith('measured here 1 of ') and counts.endswith(none), counts


def test_another_quantity_makes_an_experiment_part():
    for name, experiment in (('tessera', 'transforms'), ('liu2017', 'gpu_kinds'), ('murphy2007', 'transfer')):
        assert published.read(name).experiments[experiment].extent == 'in part'
