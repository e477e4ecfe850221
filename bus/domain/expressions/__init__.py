"""Trees of conditions: their text, what may be written, what an index finds. Pure."""
