"""``python -m parity.measure.jobs.standalone ARGUMENTS``: ReFrame writes scripts that need no parity."""

from __future__ import annotations

from reframe.frontend import cli

from parity.measure.check.workload import Workload

Workload.standalone = True
cli.main()
