"""Foreign files: reading, rows, options, gold; for datasets and importers alike."""
