"""The consumer groups of our own applications: where their positions stand on the bus. Pure."""

from __future__ import annotations

DISPATCHER = "dispatcher"
"""The application whose processes are members of a group of the same name: one works, the others
stand by."""

DECIDER = "decider"
"""Another one of the same processes, on `control.watchlist`: whichever has its partition decides on
commands."""


def application_group(application: str) -> str:
    """The group of an application. Those of Spark have no members: a driver assigns partitions
    itself, and commits for what it has done."""
    return application if application in (DISPATCHER, DECIDER) else f"streams-{application}"
