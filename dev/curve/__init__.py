"""What the rules are worth: false alarms, slowdowns found, on made noise and the study's (ci/operating-curve)."""
