"""Vehicle and face records against the watch list."""
