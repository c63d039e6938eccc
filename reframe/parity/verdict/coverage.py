"""Coverage: the measured codes among those that parity is made for, and their providers."""

from __future__ import annotations

from parity.base import codes
from parity.base.codes import Code
from parity.plan import Plan
from parity.verdict.model import Cell, CodeCoverage, Coverage


def of_cells(cells: list[Cell], plan: Plan, no_code: str) -> Coverage:
    """Return the coverage by the measured codes; ``no_code`` says why a code without a check is absent."""
    needs = {case.case: set(case.needs) for case in plan.cases}
    loaded = {n for check in plan.checks for n in check.needs}
    planned = {n for names in needs.values() for n in names}
    counted = codes.measured()
    found = [_code(code, cells, needs, _absent(code, planned, loaded, no_code)) for code in counted]
    measured = sum(c.measured for c in found)
    return Coverage(line=_line(found, measured), codes=found, measured=measured,
                    total=len(counted), cells=len(cells))


def _code(code: Code, cells: list[Cell], needs: dict[str, set[str]], no_code: str) -> CodeCoverage:
    own = [c for c in cells if code.feature in needs[c.case]]
    if any(c.value is not None for c in own):
        return CodeCoverage(code=code.name, measured=True, by=code.name)
    standing = [c for c in cells if code.stand_in in needs[c.case]
                and c.metric.startswith(code.stands_for)] if code.stand_in else []
    figures = [c for c in standing if c.value is not None]
    if any(not c.label for c in figures):
        return CodeCoverage(code=code.name, measured=True, by=code.stand_in)
    if figures:
        return CodeCoverage(code=code.name, measured=False, by=code.stand_in,
                            reason=f'{code.stand_in} only {figures[0].label}')
    return CodeCoverage(code=code.name, measured=False, reason=_why(own or standing) or no_code)


def _absent(code: Code, planned: set[str], loaded: set[str], no_code: str) -> str:
    able = {code.feature, code.stand_in}
    return 'not selected' if able & loaded and not able & planned else no_code


def _why(cells: list[Cell]) -> str:
    """Return why planned cells gave no figure; '' if no environment offers a code that is not required."""
    if not cells or all(c.verdict == 'skipped' and not c.environ for c in cells):
        return ''
    return cells[0].verdict


def _line(found: list[CodeCoverage], measured: int) -> str:
    """'3 of 13 codes (A stands in for B C; no Spack: D E F)'."""
    said: dict[str, list[str]] = {}
    for c in found:
        if c.measured and c.by != c.code:
            said.setdefault(f'{c.by} stands in for ', []).append(c.code)
        elif not c.measured:
            said.setdefault(f'{c.reason}: ', []).append(c.code)
    parts = [what + ' '.join(codes) for what, codes in said.items()]
    return f'{measured} of {len(found)} codes' + (f' ({"; ".join(parts)})' if parts else '')
