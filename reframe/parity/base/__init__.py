"""Parts that every room uses: errors, paths, codes, text, YAML, figures."""
