"""A recognition server in small: finds, tracks and reports what moves in a film."""
