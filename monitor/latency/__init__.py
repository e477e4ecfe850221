"""Latency of records, stored − captured (businesses.md L-1 to L-3): pure models only."""
