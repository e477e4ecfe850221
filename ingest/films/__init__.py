"""Films of cameras: recorded by segments, kept, found by time."""
