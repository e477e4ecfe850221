"""Status and report of the mirror, as values. Pure."""
