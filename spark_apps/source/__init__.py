"""Where an application begins to read, how far it came, and what it lost on the way."""
