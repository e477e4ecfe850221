"""Which pictures are copied, and when one is tried again. Pure."""
