"""Data topics and quarantine into the store."""
