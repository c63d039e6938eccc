"""The making of nights: it needs ReFrame, a scheduler and programs."""
