"""The JSON side of the console: the guard, log-in, and what pages and scripts ask for."""
