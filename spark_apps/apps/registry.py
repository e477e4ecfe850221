"""The applications, one row each: all that the driver knows of them.

In: names, as the settings or the command line have them. Out: which queries there are and what runs
in each, which topics must be there, whether the store is opened before the first query. Never: what
an application does, or a name anywhere else in the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from bus.contracts.topics import CONTROL_REGISTER, EVENT_INCIDENT, STATE_WATCHLIST
from spark_apps.apps.ingest import Ingest
from spark_apps.apps.latency import Latency
from spark_apps.apps.quality import Quality
from spark_apps.apps.watchlist import Watchlist
from spark_apps.queries.application import Application
from spark_apps.queries.context import Context


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """`reads` are the topics that Spark reads for it, `other_topics` those that it needs beside
    them. `shares` names the query of those that read the same records: one micro-batch serves
    them."""

    name: str
    make: Callable[[Context], Application]
    reads: tuple[str, ...]
    shares: str = ""
    needs_store: bool = False
    other_topics: tuple[str, ...] = ()


_ROWS = (  # in the order of their start and, in one query, of their turn: what must be quick first
    ApplicationRow(Watchlist.name, Watchlist, Watchlist.topics,
                   shares="records", other_topics=(STATE_WATCHLIST,)),
    ApplicationRow(Ingest.name, Ingest, Ingest.topics,
                   shares="records", other_topics=(CONTROL_REGISTER,), needs_store=True),
    ApplicationRow(Latency.name, Latency, Latency.topics, other_topics=(EVENT_INCIDENT,)),
    ApplicationRow(Quality.name, Quality, Quality.topics,
                   other_topics=(CONTROL_REGISTER, EVENT_INCIDENT)),
)  # fmt: skip
APPLICATIONS: dict[str, ApplicationRow] = {row.name: row for row in _ROWS}
TOPICS: frozenset[str] = frozenset(
    topic for row in _ROWS for topic in (*row.reads, *row.other_topics)
)
"""A driver waits for those of all, whichever it runs: they are made together."""


def in_order(names: Collection[str]) -> list[str]:
    """These, as they are started; each once."""
    return [name for name in APPLICATIONS if name in names]


def queries_of(names: Collection[str], *, share_reading: bool) -> list[list[str]]:
    """The applications of each query, both in their order."""
    queries: dict[str, list[str]] = {}
    for name in in_order(names):
        shared = APPLICATIONS[name].shares if share_reading else ""
        queries.setdefault(shared or name, []).append(name)
    return list(queries.values())


def needs_store(names: Collection[str]) -> bool:
    """Whether the store is opened while the JVM starts."""
    return any(APPLICATIONS[name].needs_store for name in names)
