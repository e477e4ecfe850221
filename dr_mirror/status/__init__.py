"""What the mirror says of itself: its file, its page, its metrics."""
