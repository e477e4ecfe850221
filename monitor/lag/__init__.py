"""Backlog of consumers (businesses.md N-11): pure model only."""
