"""Which groups' offsets are committed at the target. Pure."""
