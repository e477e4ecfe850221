"""Caches encoded topics of Metadata responses for all clients, for at most `MAX_VERSIONS` versions.

Clients that subscribe to patterns request all topics, every few minutes and all at once when a
broker has gone. Describing and encoding ten thousand partitions takes the broker's one thread tens
of milliseconds; between two responses a topic or two have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from broker.metadata.image import MetadataImage, TopicImage
from bus.protocol.generated.metadata import METADATA_RESPONSE_TOPIC_ENCODERS, MetadataResponseTopic
from bus.protocol.wire import Buffer

MAX_VERSIONS = 3
"""Clients of a site are of a few generations; the oldest requested version is dropped for a new
one.
"""

CachedTopic = tuple[TopicImage, bytes]


class EncodedTopicCache:
    """Invariant: cached bytes were encoded from the topic object beside them, with `_brokers`.

    Images are frozen: an identical object has not changed.
    """

    def __init__(self) -> None:
        self._brokers: Mapping[int, object] | None = None
        self._cached: dict[int, dict[str, CachedTopic]] = {}

    def get(
        self,
        image: MetadataImage,
        names: Iterable[str],
        api_version: int,
        describe: Callable[[TopicImage], MetadataResponseTopic],
    ) -> list[bytes]:
        """The encoded topics of these names, in the given order."""
        blocks, topics = self._of_version(image, api_version), image.topics
        encode = METADATA_RESPONSE_TOPIC_ENCODERS[api_version]
        found = []
        for name in names:
            topic, block = topics[name], blocks.get(name)
            if block is None or block[0] is not topic:
                chunks: list[Buffer] = []
                encode(describe(topic), chunks.append)
                block = blocks[name] = (topic, b"".join(chunks))
            found.append(block[1])
        if len(blocks) > len(topics):
            for name in [name for name in blocks if name not in topics]:
                del blocks[name]
        return found

    def _of_version(self, image: MetadataImage, api_version: int) -> dict[str, CachedTopic]:
        if image.brokers is not self._brokers:
            self._brokers, self._cached = image.brokers, {}
        blocks = self._cached.get(api_version)
        if blocks is None:
            if len(self._cached) >= MAX_VERSIONS:
                del self._cached[next(iter(self._cached))]
            blocks = self._cached[api_version] = {}
        return blocks
