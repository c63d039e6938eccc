"""One side against another: ratios with intervals, like for like, in the direction that is better."""
