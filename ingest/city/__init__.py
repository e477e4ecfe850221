"""A city to live in: a deterministic simulator of cameras, recognition servers, traffic, mishaps.

Entry point: `ingest.city.service.serve`. Its truth about what it produced: `ingest.city.truth`.
"""
