"""A compacted topic, followed: all that it says, in the hands of one thread. Core: `WholeState`.

In: a topic, what is made of its records. Out: that state, whole as of some end; each record is
applied once. Never: a wait without a limit; half of a topic in the place of all of it; an error for
a record that somebody else has put there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Generic, Self

from bus.client.compacted_state import State, WholeState
from bus.client.kafka.cluster import start_offsets
from bus.client.kafka.topic_reader import (
    CATCH_UP_TIMEOUT_S,
    CatchUpTimeout,
    FirstOffsets,
    TopicMissing,
    TopicReader,
)
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.settings import BusSettings

__all__ = ["CatchUpTimeout", "CompactedTopic", "TopicMissing"]


class CompactedTopic(Generic[State]):
    """One thread at a time. `catch_up` before something is decided by the state; `follow` again and
    again where it is only kept as new as may be."""

    def __init__(
        self,
        bus: BusSettings,
        topic: str,
        make_state: Callable[[], State],
        *,
        client_id: str,
        first_offsets: FirstOffsets | None = start_offsets,
        leaders: PartitionLeaders | None = None,
        overrides: Mapping[str, object] | None = None,
        timeout_s: float = CATCH_UP_TIMEOUT_S,
        stopping: threading.Event | None = None,
    ) -> None:
        """`make_state` is called once, and again for each topic that is made anew. `first_offsets`:
        where reading begins; None asks nobody, for who does not wait for the end. Raises
        `CatchUpTimeout` (`TopicMissing` where there is none) if the topic cannot be had in time,
        BusError for a setting."""
        self._whole = WholeState(make_state)
        self._reader = TopicReader(
            bus, [topic], first_offsets,
            client_id=client_id, leaders=leaders, overrides=overrides, timeout_s=timeout_s,
            stopping=stopping, on_replaced=self._whole.on_recreated,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def state(self) -> State:
        """As of the newest end of one topic; empty until `is_whole`."""
        return self._whole.state

    @property
    def is_whole(self) -> bool:
        """Whether all that was there has been read once."""
        return self._whole.is_whole

    @property
    def generation(self) -> int:
        """Grows when the topic was made anew and read: `state` is what that one says alone."""
        return self._whole.generation

    @property
    def is_at_end(self) -> bool:
        """Whether `state` is all that there was, when last looked at."""
        return self._reader.at_end and self._whole.is_whole

    def catch_up(self) -> None:
        """Apply every record that was on the topic when this was called.

        Raises `CatchUpTimeout`, also when `stopping` is set meanwhile.
        """
        for record in self._reader.read_to_end():
            self._whole.apply(record)
        self._whole.on_end()

    def follow(self, timeout_s: float) -> None:
        """Apply what comes, waiting so long for the first. Raises BusError."""
        for record in self._reader.read_what_came(timeout_s):
            self._whole.apply(record)
        if self._reader.at_end:
            self._whole.on_end()

    def close(self) -> None:
        """Leave; what was read stays."""
        self._reader.close()
