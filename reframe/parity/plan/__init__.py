"""The plan: every cell that a run must account for, known before it starts."""

from parity.plan.model import Plan, PlannedCase, PlannedMetric, Problem
from parity.plan.planner import of_command

__all__ = ['Plan', 'PlannedCase', 'PlannedMetric', 'Problem', 'of_command']
