"""Published studies, measured here: cases, campaigns, and what was measured beside what is in print."""
