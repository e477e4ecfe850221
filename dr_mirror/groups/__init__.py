"""Groups' offsets, copied beside the records."""
