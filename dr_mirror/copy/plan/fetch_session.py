"""What the mirror asks a leader of the source for, as a consumer in a fetch session. Pure.

In: the positions to fetch from, the leader's responses. Out: the next request.
Never: a connection, a clock. A thousand idle partitions cost nothing: a request names what changed.
"""

from __future__ import annotations

from bus.client.wire.fetch_session import (
    ClientFetchSession,
    PartitionKey,
    fetch_topics,
    forgotten_topics,
)
from bus.client.wire.one_fetch import FetchFrom, asked_partition
from bus.protocol.generated.fetch import FetchRequest


class ConsumerFetchSession(ClientFetchSession[FetchFrom]):
    """Each partition is fetched from a position that the user states."""

    def __init__(self, partition_max_bytes: int, isolation_level: int = 0) -> None:
        super().__init__()
        self._partition_max_bytes = partition_max_bytes
        self._isolation_level = isolation_level

    def fetch(self, key: PartitionKey, start: FetchFrom) -> None:
        """Fetch a partition from here on, also if it was fetched before."""
        if self.partitions.get(key) != start:
            self.add(key, start)

    def is_current(self, key: PartitionKey) -> bool:
        """Whether a response to the last request answers what is wanted of this partition now."""
        return key in self.partitions and not self.is_changed(key)

    def next_request(self, *, max_bytes: int, max_wait_ms: int) -> FetchRequest | None:
        """The request that fetches all that is wanted, by difference where a session stands; None:
        nothing is wanted."""
        step = self.next_step()
        if step is None:
            return None
        return FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=1,
            max_bytes=max_bytes,
            isolation_level=self._isolation_level,
            session_id=step.session_id,
            session_epoch=step.epoch,
            topics=fetch_topics(
                asked_partition(key, self.partitions[key], self._partition_max_bytes)
                for key in step.named
            ),
            forgotten_topics_data=forgotten_topics(
                (key, start.topic) for key, start in step.forgotten.items()
            ),
        )
