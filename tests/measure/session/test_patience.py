"""How long a night bears a scheduler that does not answer."""

from __future__ import annotations

import pytest

from parity.measure.session import assemble
from parity.site import systems


@pytest.mark.parametrize('name', systems.names())
def test_no_system_of_ours_ends_a_night_after_fewer_failures_of_sacct_than_the_default(name):
    for part in systems.read(name).partitions:
        options = {**assemble._PATIENCE, **(part.sched_options or {})}
        assert options['max_sacct_failures'] >= assemble._PATIENCE['max_sacct_failures'] == 100
