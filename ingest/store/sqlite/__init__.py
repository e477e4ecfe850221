"""The embedded record store: one SQLite file, one writer, any number of readers."""
