"""`parity doctor`: what is there and what is lacking for the nightly run of a system."""
