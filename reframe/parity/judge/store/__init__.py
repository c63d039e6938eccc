"""Stored sessions: ReFrame's results database, and what was measured as rows."""
