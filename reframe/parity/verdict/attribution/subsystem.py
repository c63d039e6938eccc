"""Which part of a machine moves with the cells that are slower: subsystems.yaml, read against a night."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from parity.base import yamlfile
from parity.base.strict import Strict
from parity.verdict.attribution.model import Subsystem


class Rule(Strict):
    name: str
    down: list[str]
    support: list[str] = Field(alias='with')
    fine: list[str]


class Table(Strict):
    groups: dict[str, list[str]]
    rules: list[Rule]


@functools.cache
def table() -> Table:
    """The table that parity comes with."""
    return yamlfile.read(Path(__file__).with_name('subsystems.yaml'), Table)


def group_of(name: str) -> str:
    """The group of a cell, '' for one of none; ``name`` as parity.records.history.cell_id prints it."""
    before = name.partition('@')[0]
    return next((group for group, patterns in table().groups.items()
                 if any(re.match(pattern, before) for pattern in patterns)), '')


def of(cells: Mapping[str, bool]) -> Subsystem:
    """What the cells of one partition say together: {name: slower?} of those that were judged."""
    down: dict[str, list[str]] = {}
    judged = set()
    for name, slower in cells.items():
        if group := group_of(name):
            judged.add(group)
            if slower:
                down.setdefault(group, []).append(name)
    for rule in table().rules:
        if all(g in down for g in rule.down) and judged & set(rule.fine) and not set(rule.fine) & set(down):
            fine = [g for g in rule.fine if g in judged]
            return Subsystem(name=rule.name, why=f'{_moved(rule, down)} slower, {" and ".join(fine)} not',
                             cells=[c for g in (*rule.down, *rule.support) for c in down.get(g, [])])
    if not down:
        return Subsystem()
    if judged == set(down):
        return Subsystem(why=f'slower: {", ".join(down)}; nothing else was judged')
    return Subsystem(why=f'slower: {", ".join(down)}; these move together in no way that is known')


def _moved(rule: Rule, down: Mapping[str, list[str]]) -> str:
    return ' and '.join(g for g in (*rule.down, *rule.support) if g in down)
