"""Backlog of consumers (row N-11 of docs/from_the_seeds.md): pure model only."""
