"""Assembly and life of one broker."""
