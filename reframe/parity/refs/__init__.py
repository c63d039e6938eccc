"""Accepted values with a life: proposed from the history, accepted with a reason, shown, linted, expired. Levels that
a person began, and the files of such entries."""
