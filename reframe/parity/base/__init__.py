"""Parts that every wing uses: errors, paths, codes, text, YAML, figures."""
