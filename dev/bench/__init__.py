"""Medians of paired runs: are our sizes and placements as good as they should be? (ci/bench)"""
