"""The cause of a slower figure, as far as it is known: where, in what part of the machine, what changed."""
