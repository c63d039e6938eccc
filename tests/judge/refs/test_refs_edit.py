"""What is accepted stands in the file as ReFrame reads it, and nothing else in the file moves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from mutations import MUTATIONS
from parity.base.errors import UsageError
from parity.judge.refs import accept
from parity.judge.refs.accept import Flow

FILE = Path('systems/x/references/default.yaml')
HAND = '''\
# Agreed with the storage team in March.
Toy:
    $index: [size, mode]        # no clients: the same for all
    quick:
      copy:
        rate:   [243.5,-0.05, 0.10, MB/s]   # by hand
        # seconds is not judged: it says the same

Other:
  $index: [size]
  quick:
    hpl:
      - 1.0
      - Gflop/s
provenance:
  Toy/quick/copy/rate: {by: ana}
  # the end
'''
ENTRY = Flow([1, -0.1, 0.1, 's'])


def test_comments_order_and_spacing_of_what_was_there_stay():
    tree = {'Toy': {'quick': {'copy': {'hangs': Flow([0, None, 0, 'count']), 'rate': Flow([250.0, -0.04, 0.04, 'MB/s'])}, 'write': {'rate': ENTRY}}},
            'Other': {'quick': {'hpl': ENTRY}}, 'New': {'$index': Flow(['size']), 'quick': {'x': ENTRY}}, 'provenance': {'New/quick/x': Flow({'why': 'first'})}}
    new, old = accept.merged(FILE, HAND, tree), HAND.splitlines()
    kept = iter(new.splitlines())
    assert all(line in kept for line in old if not line.strip().startswith(('rate:   [', 'hpl:', '- ')))
    assert [line for line in new.splitlines() if line not in old] == [
        '        rate:   [250.0, -0.04, 0.04, MB/s]   # by hand', '        hangs: [0, null, 0, count]', '      write:',
        '        rate: [1, -0.1, 0.1, s]', '      [1, -0.1, 0.1, s]', 'New:', '    x: [1, -0.1, 0.1, s]', '  New/quick/x: {why: first}']
    assert accept.merged(FILE, HAND.replace('\n', '\r\n'), tree) == new.replace('\n', '\r\n')


@pytest.mark.parametrize('text, says', [
    ('Toy: {$index: [size], quick: {}}\n', 'default.yaml:1: nothing can be'), ('Toy:\n  quick:\n', 'default.yaml:2: nothing can be'),
    ('- a list\n', 'default.yaml:1: nothing can be'), ('Toy:\n  quick: &q\n    x: [1, -0.1, 0.1, s]\n  nightly: *q\n', r'\(an anchor that'),
])
def test_what_cannot_be_added_to_is_refused_with_its_line(text, says):
    with pytest.raises(UsageError, match=says):
        accept.merged(FILE, text, {'Toy': {'quick': {'x': Flow([2, -0.1, 0.1, 's'])}}})


def applied(text: str, **attributes: str) -> dict:
    """What ReFrame itself takes from a file for a test Toy with these attributes, by metric."""
    from reframe.core import pipeline

    class Toy(pipeline.RegressionTestPlugin):
        pass

    test = object.__new__(Toy)
    vars(test).update(attributes)
    with mock.patch.object(pipeline.rt, 'runtime', lambda: SimpleNamespace(get_option=lambda name: '')), \
            mock.patch('builtins.open', mock.mock_open(read_data=text)):
        return pipeline._ReferenceDict({'$ref': 'file.yaml'}, test=test)[test]


#: Names that YAML would take for something else, or that stand in its way.
NAMES = st.sampled_from(['one', '1', '007', 'yes', 'off', 'null', '~', '1e3', '0x1F', '1:30', '2026-11-20', 'a b', '- x',
                         '#x', 'ä', '{', "it's", '"', 'x: y', '%', '&a', '*a', '!t', '@', '`', '<<', '=', '.5', '1_000'])
METRICS = st.sampled_from(['rate', 'seconds', 'hangs', 'y', 'n', '8'])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-10**12, 10**12)
TUPLES = st.tuples(NUMBERS, st.none() | NUMBERS, st.none() | NUMBERS, st.sampled_from(['MB/s', '', '%', '1/s', 'null', 'Gflop/s']))
ENTRIES = st.dictionaries(st.tuples(NAMES, METRICS), TUPLES, min_size=1, max_size=6)
COMMENTS = st.sampled_from(['', '# a comment', '      # deep', '#: {'])
#: What a file may hold (parity.base.text).
TEXTS = st.text(st.characters(exclude_categories=('Cs', 'Cc', 'Cf', 'Zl', 'Zp', 'Zs'), include_characters=' '),
                min_size=1, max_size=60)


def by_hand(entries: dict, step: int, comment: str) -> str:
    """A file as a person writes it: their own spacing, comments between entries."""
    lines = [comment, *(['Toy:', ' ' * step + '$index: [size, mode]   # by hand', ' ' * step + 'quick:'] if entries else [])]
    for mode in dict.fromkeys(mode for mode, _ in entries):
        lines.append(' ' * 2 * step + f'{accept.flow(mode)}:   {comment}')
        for metric, value in ((metric, value) for (of, metric), value in entries.items() if of == mode):
            said = accept.flow(list(value)).replace(', ', ' ,  ')
            lines += [' ' * 3 * step + f'{accept.flow(metric)}:  {said} {comment}', comment]
    return '\n'.join(lines)


@settings(max_examples=MUTATIONS, deadline=None)
@given(before=st.just({}) | ENTRIES, after=ENTRIES, step=st.sampled_from([1, 2, 4]), comment=COMMENTS, why=TEXTS)
def test_what_was_accepted_is_what_reframe_applies(before, after, step, comment, why):
    text, paths = by_hand(before, step, comment), {f'Toy/quick/{mode}/{metric}': {'why': why} for mode, metric in after}
    tree: dict = {'Toy': {} if before else {'$index': Flow(['size', 'mode'])}}
    for (mode, metric), value in after.items():
        tree['Toy'].setdefault('quick', {}).setdefault(mode, {})[metric] = Flow(list(value))
    new = accept.merged(FILE, text, {**tree, 'provenance': {path: Flow(told) for path, told in paths.items()}})
    meant = {**before, **after}
    for mode in {mode for mode, _ in meant}:
        assert applied(new, size='quick', mode=mode) == {m: v for (of, m), v in meant.items() if of == mode}
    assert yaml.safe_load(new)['provenance'] == paths
    kept = iter(new.splitlines())
    for line in text.splitlines():
        if not line.strip() or line.strip().startswith('#') or line.split(':')[0].strip() in ('Toy', '$index', 'quick'):
            assert line in kept, f'{line!r} is gone, or was moved'
