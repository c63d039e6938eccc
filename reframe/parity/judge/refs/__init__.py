"""Accepted values with a life: proposed from the history, accepted with a reason, shown, linted, expired; levels
that a person began."""
