"""The consumer groups of our own applications: where their positions stand on the bus. Pure."""

from __future__ import annotations


def application_group(application: str) -> str:
    """The group of an application of Spark. It has no members: a driver assigns partitions itself,
    and commits for what it has done."""
    return f"streams-{application}"
