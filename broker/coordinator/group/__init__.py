"""Consumer groups: the pure state machine of one group, its records, and its service."""
