"""Published experiments: what a document prints, read, checked against itself, and compared."""
