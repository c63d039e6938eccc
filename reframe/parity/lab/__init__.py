"""The verdict's rule on other series than tonight's: replay, what it would find, how many hours a night needs."""
