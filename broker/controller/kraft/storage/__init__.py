"""The metadata log, its snapshots and the election state on disk."""
