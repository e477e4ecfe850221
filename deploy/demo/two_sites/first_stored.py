"""How long it takes from the last record that A acknowledged until B has stored one of its own.

In: A's ends and B's store, looked at all the time; the ends at the switch. Out: milliseconds.
Never: a record that came from the former primary; a time of the command's own.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping, Sequence
from contextlib import closing

from bus.client.kafka.admin import Admin
from bus.client.model import TopicPartition
from bus.errors import BusError
from bus.runtime.wall_clock import now_ms
from deploy.open_stores import open_records
from deploy.settings.composed import Settings
from ingest.store.port import StoreError

POLL_S = 0.03
INGEST = "ingest"

Ends = Mapping[tuple[str, int], int]
"""By topic and partition."""


class AcknowledgedEnds:
    """One thread that notes how far the former primary has acknowledged. Invariant: `_seen` ascends
    in time."""

    def __init__(self, site: Settings, topics: Sequence[str]) -> None:
        self._site = site
        self._topics = topics
        self._seen: list[tuple[int, Ends]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ends of A", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._thread.join()

    def last_ms(self, ends: Ends) -> int | None:
        """When the last record below these ends was acknowledged; None: none was, while it was
        looked at. What comes behind them came from the new primary."""
        return last_growth_ms(self._seen, ends)

    def _run(self) -> None:
        admin = Admin(self._site.bus, client_id="demo")
        try:
            places = [
                TopicPartition(topic, each.index)
                for topic in self._topics
                for each in admin.describe_topic(topic).partitions
            ]
            while not self._stopping.wait(POLL_S):
                found = {(p.topic, p.partition): n for p, n in admin.end_offsets(places).items()}
                if not self._seen or found != self._seen[-1][1]:
                    self._seen.append((now_ms(), found))
        except BusError:
            return  # it is dead: it acknowledges nothing any more
        finally:
            admin.close()


def last_growth_ms(seen: Sequence[tuple[int, Ends]], ends: Ends) -> int | None:
    """Of looks in their order: when an end grew last, as far as it lies below these. Pure."""
    last: int | None = None
    for (_, before), (at_ms, after) in itertools.pairwise(seen):
        if any(
            min(after[place], end) > before[place]
            for place, end in ends.items()
            if place in after and place in before
        ):
            last = at_ms
    return last


class StoredPositions:
    """One thread that notes how far the store is. Invariant: `_seen` ascends in time."""

    def __init__(self, site: Settings) -> None:
        self._site = site
        self._seen: list[tuple[int, Ends]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="positions of B", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._thread.join()

    def first_beyond(self, ends: Ends, since_ms: int) -> int | None:
        """How long after `since_ms` a partition stood beyond its end for the first time; None:
        none did."""
        for at_ms, positions in list(self._seen):
            if any(end > ends[place] for place, end in positions.items() if place in ends):
                return max(at_ms - since_ms, 0)
        return None

    def _run(self) -> None:
        before: Ends = {}
        while not self._stopping.wait(POLL_S):
            try:
                with closing(open_records(self._site)) as reader:
                    while not self._stopping.wait(POLL_S):
                        found = {
                            (one.topic, one.partition): one.end_offset
                            for one in reader.positions(INGEST)
                        }
                        if found != before:
                            self._seen.append((now_ms(), found))
                            before = found
            except StoreError:
                continue  # busy, or not made yet
