"""To which of two sites the edge sends, and what the other one holds."""
