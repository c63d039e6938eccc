"""A clause after a look: which nodes it names, their figures, and the histogram."""

from __future__ import annotations

import pytest

from parity.judge.contract import histogram, judged, look
from parity.judge.contract.model import ClauseVerdict, NodeFigure
from parity.judge.stats import promise
from parity.site.contract import Clause

CLAUSE = Clause(id='hpl', promise='Each node reaches 10.', partition='cpu', check='Hpl', metric='gflops', at_least=10, unit='Gflop/s')
NODES = NodeFigure('c1', (9.0, 9.0), 9.0), NodeFigure('c2', (12.0, 12.0), 12.0)


@pytest.mark.parametrize('high, word, failing', [(9.5, 'not met', ['c1']), (11.0, 'open', [])])
def test_nodes_are_named_only_by_a_clause_that_is_not_met(high, word, failing):
    looks = look.NodeLook(2, 9.0, 8.0, high, is_bad=True, is_named=True), look.NodeLook(2, 12.0, 9.0, 13.0)
    verdict = judged._looked(ClauseVerdict(CLAUSE, nodes=NODES), look.Look(looks, 10.0, 9.0, 8.0, high), promise.rule(2, 1.0, 2, 1))
    assert verdict.word == word and [node.name for node in verdict.failing] == failing


@pytest.mark.parametrize('bound, places, fails', [({'at_least': 10}, (9.0, 8.0, 9.5), ''), ({'at_least': None, 'at_most': 10}, (-9.0, -9.5, -8.0), ''), ({'at_least': 10}, (9.0, 8.0, 9.5), 'wrong')])
def test_a_node_has_the_figures_of_its_look_or_that_of_the_run_that_fails_it(bound, places, fails):
    node = NodeFigure('c1', (7.0,), 7.0, word=fails)
    found = judged._with_limits(node, look.NodeLook(2, *places), CLAUSE.model_copy(update=bound))
    assert (found.value, found.low, found.high) == (7.0 if fails else 9.0, 8.0, 9.5)


def test_the_axis_of_a_histogram_is_wider_than_its_figures_on_both_sides():
    drawn = histogram.draw(ClauseVerdict(CLAUSE, nodes=NODES))
    (least, _), (most, _) = drawn.ticks
    left, right = histogram._Axis(0.0, 1.0).place(0.0), histogram._Axis(0.0, 1.0).place(1.0)
    assert left < least < drawn.bound < most < right
    assert least - left == pytest.approx(right - most)
