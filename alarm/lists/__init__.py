"""Lists of plates: read from the bus, kept in files that processes share."""
