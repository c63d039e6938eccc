"""The states of cells, stored with each night: readers read them and judge nothing again."""

from __future__ import annotations

import numpy as np
import polars as pl

from commands import parity
from parity.judge.store import database
from parity.judge.store import states as table
from parity.judge.verdict import judge, model, states
from parity.measure.session import retain
from parity.nightly import notify
from stored import case


def words(system='local'):
    """The word of hpl on each night."""
    found = states.words(system).filter(metric='hpl')
    return [dict(found.select('session', 'word').iter_rows()).get(uuid) for uuid in database.uuids()]


def test_a_night_keeps_the_state_that_it_was_judged_with_and_older_ones_are_made_once(stored, site, capsys):
    rng = np.random.default_rng(1)
    for level in [100.0] * 15 + [90.0] * 3:
        stored.add(case(level * (1 + 0.003 * rng.standard_normal())))
    own = notify.prepared('local')
    for said in ('parity: 18 nights had no states of cells: they are made\n', ''):
        own.catch_up()
        assert capsys.readouterr().out == said
    assert words() == ['insufficient'] * 10 + ['ok'] * 6 + ['regressed'] * 2
    stored.add(case(89.5))
    own.recorded(judge.newest())
    assert words()[-1] == 'regressed' and len(table.stored('local')) == 19
    night, = table.read('local', database.uuids()[-1:]).filter(metric='hpl').iter_rows(named=True)
    assert night['state'] == 'slow' and night['incident'] == 1 and abs(night['level'] - 90) < 1 and abs(night['usual'] - 100) < 1
    last = database.uuids()[-1]
    table.write('local', {last: table.read('local', [last]).drop('session').with_columns(word=pl.lit('improved'))}, database.starts())
    assert words()[-1] == 'improved', 'nothing is judged again'
    assert f'{last}' in (shown := parity('export', '--csv', '-').stdout) and ',improved' in shown.splitlines()[-1]
    retain.prune(database.starts()[last], dry_run=False)
    assert table.stored('local') == {last}


def test_the_accepted_bounds_of_then_tell_the_word_of_a_night_that_was_stored_before(stored, site):
    for value, refs in ((100.0, None), (100.0, (100.0, -0.03, 0.03)), (90.0, (100.0, -0.03, 0.03)), (110.0, (100.0, -0.03, 0.03)),
                        (90.0, (100.0, -0.03, 0.03)),
                        (100.0, (100.0, -0.2, 0.2)), (100.0, (100.0, None, 0.03))):
        stored.add(case(value, refs={'hpl': refs} if refs else {}))
    stored.add(case(90.0, refs={'hpl': (100.0, -0.03, 0.03)}), case(98.0), case(99.0))
    assert words() == ['insufficient', 'ok', 'ok', 'improved', 'regressed', 'blind', 'blind', 'ok'], 'the second bad night; the median of the runs'


def test_one_cell_has_the_name_that_it_has_among_all():
    cells = [
        model.Cell(check='Toy', case=case, subsystem='compute', system='box', partition='cpu', environ=environ,
                   size='nightly', metric='rate', unit='GB/s', better='higher', verdict='ok')
        for case, environ in (('Toy', 'gnu'), ('Toy', 'clang'), ('Toy %n=2', 'gnu'))]
    alone = [model.name(cell, cells) for cell in cells]
    assert alone == [*model.names(cells)] == ['Toy.rate@box:cpu+gnu', 'Toy.rate@box:cpu+clang', 'Toy%n=2.rate@box:cpu']
