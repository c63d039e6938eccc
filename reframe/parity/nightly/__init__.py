"""The guarded run that a timer calls: what can be wrong is found before anything runs."""
