"""ci/bench: medians of paired runs show the quality of our sizes and placements."""
