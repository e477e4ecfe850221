"""Logs of a former primary that were cut when it came back: whose positions go back, and when a
driver has to begin anew.

In: the topics' key `mirror.cuts`. Out: positions of the store, lower than they were. Never: a batch
of a driver that began before a cut behind positions that were set back: it ends, and the next one
begins at the cut.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from bus.client.kafka.admin import Admin
from bus.contracts.mirror_truncations import TRUNCATIONS_KEY, TopicTruncations, parse_truncations
from bus.errors import BusError
from bus.settings import BusSettings
from ingest.store.port import Position
from ingest.store.positions import set_back

log = logging.getLogger(__name__)

CLIENT_ID = "streams-cuts"
TIMEOUT_S = 10.0
EVERY_S = 5.0


class LogsTruncated(Exception):
    """Topics of this driver have other records than those it has read; the text names them."""


class PositionWriter(Protocol):
    """Of a record store what is needed to go back."""

    def set_positions(self, positions: Sequence[Position]) -> None:
        """See `ingest.store.port.RecordStore`."""


class TruncationWatcher:
    """The cuts of some topics. Invariant: `known` is what the driver began with."""

    def __init__(self, bus: BusSettings, topics: Iterable[str]) -> None:
        """Raises BusError."""
        self._admin = Admin(bus, client_id=CLIENT_ID, timeout_s=TIMEOUT_S)
        self._topics = sorted(topics)
        self._asked_s = time.monotonic()
        self.known = read_truncations(self._admin, self._topics)

    def close(self) -> None:
        """Ask no more."""
        self._admin.close()

    def check(self) -> None:
        """Every few seconds, ask again. Raises LogsTruncated."""
        if time.monotonic() - self._asked_s < EVERY_S:
            return
        self._asked_s = time.monotonic()
        try:
            now = read_truncations(self._admin, self._topics)
        except BusError as error:
            log.info("it is not known just now whether logs were cut: %s", error)
            return
        changed = sorted(name for name, found in now.items() if found != self.known.get(name))
        if changed:
            raise LogsTruncated(
                f"the logs of {', '.join(changed)} were cut when this site came back as a secondary"
                "; this driver ends, and the next one begins at the cut"
            )


def read_truncations(
    admin: Admin, topics: Sequence[str]
) -> Mapping[str, tuple[TopicTruncations, ...]]:
    """Those of topics that have any. Raises BusError."""
    found = {}
    for name, values in admin.all_topic_configs(topics).items():
        try:
            parsed = parse_truncations(values.get(TRUNCATIONS_KEY, ""))
        except ValueError as error:
            log.error("%s of %s is passed over: %s", TRUNCATIONS_KEY, name, error)
            continue
        if parsed:
            found[name] = parsed
    return found


def go_back(
    store: PositionWriter,
    stored: Sequence[Position],
    marks: Sequence[Position],
    found: Mapping[str, Sequence[TopicTruncations]],
) -> list[Position]:
    """The positions of an application as they stand now: behind a cut they are set back in the
    store, once for each site epoch. `marks`: those of `epoch_marks`. Rows stay. Raises StoreError.
    """
    changes = set_back(stored, marks, found)
    if not changes:
        return list(stored)
    store.set_positions([each for position, mark, _ in changes for each in (position, mark)])
    before = {(p.topic, p.partition): p.end_offset for p in stored}
    for position, mark, changed in changes:
        was = before[position.topic, position.partition]
        if was > position.end_offset:
            log.warning(
                "%s-%d: site epoch %d has cut the log at %d; read again from there. Of this site's "
                "own tail %d records were read, and their rows stay",
                position.topic, position.partition, mark.end_offset, position.end_offset,
                min(was, changed.former_end) - position.end_offset,
            )  # fmt: skip
    now = {(p.topic, p.partition): p for p, _, _ in changes}
    return [now.get((p.topic, p.partition), p) for p in stored]
