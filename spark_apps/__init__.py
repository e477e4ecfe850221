"""Spark Structured Streaming applications. See README.md."""
