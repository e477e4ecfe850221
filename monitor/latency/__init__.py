"""Latency of records, stored − captured (rows L-1 to L-3 of docs/from_the_seeds.md): pure."""
