"""The edges of a site, which keep what the other site lacks."""
