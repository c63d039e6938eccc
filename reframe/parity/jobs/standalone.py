"""``python -m parity.jobs.standalone ARGUMENTS``: reframe that writes scripts without what only parity reads."""

from __future__ import annotations

from reframe.frontend import cli

from parity.check.workload import Workload

Workload.standalone = True
cli.main()
