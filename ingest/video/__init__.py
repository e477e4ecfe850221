"""A recognition server's work in small: finds, tracks and reports what moves in a film."""
