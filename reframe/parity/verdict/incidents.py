"""Incidents: what has one place, one part and one change is one numbered entry, from its first night to its end.

They are rows of a table of parity's own in the results database, which ci/nightly writes at its end, and
`parity ack`."""

from __future__ import annotations

from parity.records import database
from parity.verdict.model import Incident


def of_system(system: str) -> list[Incident]:
    """Return every incident of the system, over ones too, by number; none without a table.

    Raises InfrastructureError where the database cannot be read."""
    return [_read(*row) for row in
            database.query('SELECT number, json FROM parity_incidents WHERE system = ? ORDER BY number', system)]


def _read(number: int, text: str) -> Incident:
    return Incident.model_validate_json(text).model_copy(update={'number': number})
