"""The verdict's rule on a history: what it would have found."""
