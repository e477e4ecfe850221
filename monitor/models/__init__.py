"""Latency, quality and backlog as pure models; Spark jobs and the console use the same ones."""
