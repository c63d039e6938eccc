"""The plan: every cell that a run must account for, known before it starts."""

from collections.abc import Iterable
from typing import Any

from pydantic import model_validator

from parity.base import reasons
from parity.base.reasons import Kind
from parity.base.strict import Strict

#: The one metric of a foreign test without performance variables, and the size of every foreign test.
PASSED, OWN = 'passed', 'own'
#: Labels of figures that count. A figure with another label, such as `cached`, is shown and left out.
COUNTED_LABELS = ('', PASSED, 'test bed')


class PlannedMetric(Strict):
    name: str
    unit: str
    better: str             # '' where it is not known
    unknown: str = ''       # why
    left_out: str = ''      # why a case of this size never has it
    kind: Kind = Kind.NONE  # of that reason

    @model_validator(mode='before')
    @classmethod
    def _with_kind(cls, stored: dict[str, Any]) -> dict[str, Any]:
        why = stored.get('left_out')
        return {'kind': reasons.kind('skipped', why), **stored} if why else stored


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


class LoadedCheck(Strict, extra='ignore'):     # older sessions have more keys
    """A check class that was loaded, selected or not. References may name its metrics and parameters."""

    check: str
    file: str
    needs: list[str] = []
    parameters: dict[str, list[str]] = {}
    sizes: list[str] = []                   # that a reference may name, where they are others than a night's
    variants: dict[str, list[str]] = {}     # that a reference must name
    metrics: list[PlannedMetric]


class Problem(Strict):
    """A file that gives no check, or a check that ReFrame would leave out without a word."""

    file: str
    what: str
    refuses: bool = True    # a night; else the rest runs, and the verdict tells it

    def __str__(self) -> str:
        return f'{self.file}: {self.what}'


class Asked(Strict):
    """A case that a command line could make, by the text of its parameters and variables."""

    check: str
    parameters: dict[str, str]
    variables: dict[str, str]
    partition: str = ''     # '': of no partition, only whether there is such a case
    environ: str = ''       # '': any of the partition's environments


class CaseAnswer(Strict):
    """Metrics of such a case, and the check's reason why it cannot run; '' where it can."""

    reason: str = ''
    wrong: str = ''         # the variable that the check lacks, or whose value is none of its, for the reason
    beyond: str = ''        # the variable that no memory of the partition holds, for the reason
    metrics: list[str] = []


class Plan(Strict):
    system: str
    providers: list[str] = []          # of the environments that the system's partitions have
    cases: list[PlannedCase]
    checks: list[LoadedCheck]
    problems: list[Problem]
    answers: list[CaseAnswer] = []


def not_offered(needs: Iterable[str], where: str = '') -> str:
    """Return the reason why no environment (of a partition) runs a case that needs these features."""
    of_partition = f' of {where}' if where else ''
    return f'no environment{of_partition} offers {", ".join(needs)}'


def none_can_run(planned: Plan) -> str:
    """Return why not one case of a plan can run, with every feature that lacks; '' where one can."""
    if not planned.cases or any(case.environ for case in planned.cases):
        return ''
    needs = set().union(*(case.needs for case in planned.cases))
    return f'nothing can run: {not_offered(sorted(needs), planned.system)}'
