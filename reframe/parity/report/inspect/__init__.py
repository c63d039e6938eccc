"""`parity show`: everything that is known of one cell, put together from what is stored."""
