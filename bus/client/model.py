"""What a client of the bus reads and names, as plain values: partitions, records, who a cluster is.

Pure modules take these; `consumer` and `cluster` fill them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Partition = tuple[str, int]


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


class Received(NamedTuple):
    """A record from the bus. `timestamp_ms` is -1 if it has none."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    def header(self, name: str) -> bytes | None:
        """The last header of a name."""
        return next((value for key, value in reversed(self.headers) if key == name), None)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Identity of a cluster and of the topics somebody reads."""

    cluster_id: str
    topic_ids: dict[str, str]
    partitions: tuple[Partition, ...]
