"""The applications: one file each, what the driver runs and the pure functions below it."""
