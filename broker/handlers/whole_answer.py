"""The newest answer about all topics, kept as it was sent.

In: an answer and what it was made of. Out: its bytes for the next client that would be told the
same. Never: an answer made of other metadata, of other brokers or for other rights; never more than
one.

Clients that follow patterns ask for everything, every few minutes and all at once when a broker
has gone. Ten thousand partitions cost the broker's one thread twenty milliseconds, and each of
them would wait for those before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from broker.metadata.image import MetadataImage
from bus.protocol.frames import for_request
from bus.protocol.wire import Buffer


@dataclass(frozen=True, slots=True)
class Origin:
    """What an answer is made of besides topics and the states of brokers."""

    api_version: int
    names: tuple[str, ...]
    """The topics this client may see."""
    brokers: Sequence[Any]
    """The brokers as this client reaches them."""
    cluster_id: str
    controller_id: int


class WholeAnswer:
    """Invariant: `_frame` is the answer of `_origin` about `_topics` on `_brokers`."""

    def __init__(self) -> None:
        self._origin: Origin | None = None
        self._topics: object = None
        self._brokers: object = None
        self._frame = b""

    def find(self, image: MetadataImage, origin: Origin, correlation_id: int) -> list[Buffer]:
        """The answer for another request; empty if it would be another one.

        Images are frozen: what is the same object has not changed.
        """
        if (
            image.topics is not self._topics
            or image.brokers is not self._brokers
            or origin != self._origin
        ):
            return []
        return for_request(self._frame, correlation_id)

    def keep(self, image: MetadataImage, origin: Origin, frame: bytes) -> None:
        """The newest answer, in place of the one before."""
        self._origin, self._frame = origin, frame
        self._topics, self._brokers = image.topics, image.brokers
