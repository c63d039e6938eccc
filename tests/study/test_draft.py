"""A new study of a table."""

from __future__ import annotations

from commands import parity
from parity.study.published import draft, read
from parity.study.published.figures import published


def test_a_wide_table_has_repeats_blanks_and_directions(site, tmp_path):
    table = tmp_path / 'wide.csv'
    table.write_text('machine,run,time (s),rate (MB/s)\nold node,1,3.0,9\nold node,2,3.1,9\nnew node,1,2.0,12\nnew node,2,2.1,11\n')
    draft.written('boards', table, ['time=lower'])
    cells, _ = published(read('boards'), 'boards')
    assert {cell.point['machine'] for cell in cells} == {'old_node', 'new_node'} and all({*cell.point} == {'machine'} and len(cell.values) == 2 for cell in cells)
    assert {cell.metric: cell.better for cell in cells} == {'time': 'lower', 'rate': ''}
    assert read('boards').series('boards.time old_node / new_node').ends


def test_new_asks_which_values_are_better(site, tmp_path):
    done = parity('study', 'new', 'asked')
    assert done.returncode == 0 and 'which is better of rate, higher or lower?' in done.stdout, done.stderr
    wrong = parity('study', 'new', 'other', '--better', 'speed=higher')
    assert wrong.returncode == 2 and "unknown metric 'speed'" in wrong.stderr
