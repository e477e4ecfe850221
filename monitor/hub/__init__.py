"""What happens on the bus now: one tail for all pages, bounded memory, deltas out."""
