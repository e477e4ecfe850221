"""What happens on the bus now: one consumer for all pages, bounded memory, deltas out."""
