"""Which ACLs the target should have. Pure."""
