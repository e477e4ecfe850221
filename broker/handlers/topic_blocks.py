"""Topics as Metadata tells them, encoded once for all clients.

In: topics of an image, how one is told. Out: their bytes in a version of the API. Never: a block of
another state of its topic or of the brokers, blocks of more than `MOST_VERSIONS` versions.

Clients that follow patterns ask for everything, every few minutes and all at once when a broker has
gone. To describe and encode ten thousand partitions takes the broker's one thread tens of
milliseconds; between two answers a topic or two have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker.metadata.image import MetadataImage, TopicImage
from bus.protocol.generated.metadata import METADATA_RESPONSE_TOPIC_ENCODERS, MetadataResponseTopic
from bus.protocol.wire import Buffer

MOST_VERSIONS = 3
"""Clients of a site are of a few generations; the oldest asked version makes room for a new one."""

Block = tuple[TopicImage, bytes]


class TopicBlocks:
    """Invariant: a block was made of the very topic beside it, while brokers were as in `_brokers`.

    Images are frozen: what is the same object has not changed.
    """

    def __init__(self) -> None:
        self._brokers: Mapping[int, object] | None = None
        self._kept: dict[int, dict[str, Block]] = {}

    def of(
        self,
        image: MetadataImage,
        names: Iterable[str],
        api_version: int,
        tell: Callable[[TopicImage], MetadataResponseTopic],
    ) -> list[bytes]:
        """The blocks of these topics of the image, in this order."""
        kept, topics = self._of_version(image, api_version), image.topics
        encode = METADATA_RESPONSE_TOPIC_ENCODERS[api_version]
        found = []
        for name in names:
            topic, block = topics[name], kept.get(name)
            if block is None or block[0] is not topic:
                chunks: list[Buffer] = []
                encode(tell(topic), chunks.append)
                block = kept[name] = (topic, b"".join(chunks))
            found.append(block[1])
        if len(kept) > len(topics):
            for name in [name for name in kept if name not in topics]:
                del kept[name]
        return found

    def _of_version(self, image: MetadataImage, api_version: int) -> dict[str, Block]:
        if image.brokers is not self._brokers:
            self._brokers, self._kept = image.brokers, {}
        kept = self._kept.get(api_version)
        if kept is None:
            if len(self._kept) >= MOST_VERSIONS:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[api_version] = {}
        return kept
