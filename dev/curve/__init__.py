"""The operating curve of the rules: false alarms and found slowdowns on simulated noise and the study's."""
