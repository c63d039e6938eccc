"""What a plan is: cases as ReFrame's loader gives them, and what is wrong with the checks' files."""

from __future__ import annotations

from parity.base.strict import Strict


class PlannedMetric(Strict):
    name: str
    unit: str
    better: str
    left_out: str = ''      # why a case of this size never has it


class PlannedCase(Strict):
    """A check on a partition; ``environ`` is '' where no environment offers what it needs."""

    check: str
    case: str
    unique_name: str
    subsystem: str
    size: str
    file: str
    needs: list[str]
    system: str
    partition: str
    environ: str
    metrics: list[PlannedMetric]


class LoadedCheck(Strict):
    """A check class that was loaded, selected or not: what references may speak of."""

    check: str
    file: str
    needs: list[str] = []
    parameters: dict[str, list[str]] = {}
    variants: dict[str, list[str]] = {}     # that a reference must name
    metrics: list[PlannedMetric]


class Problem(Strict):
    """A file that gives no check, or a check that ReFrame would leave out without a word."""

    file: str
    what: str

    def __str__(self) -> str:
        return f'{self.file}: {self.what}'


class Plan(Strict):
    system: str
    providers: list[str] = []          # of the environments that the system's partitions have
    cases: list[PlannedCase]
    checks: list[LoadedCheck]
    problems: list[Problem]
