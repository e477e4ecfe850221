"""What several handlers need of topics: internal names, endpoints of leaders, auto-creation.

Never: a response of an API.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat

from broker.controller.decisions.topics import NewTopic, TopicResult, create_topics
from broker.handlers.context import Services
from broker.log.errors import LogError
from broker.metadata.image import Endpoint, MetadataImage
from bus.errors import ErrorCode

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"

_INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC, METADATA_TOPIC})


def is_internal(name: str) -> bool:
    """Whether clients may read but not write the topic."""
    return name in _INTERNAL


def endpoint_of(image: MetadataImage, broker_id: int, listener: str) -> Endpoint | None:
    """Where clients of this listener reach a broker."""
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.endpoints:
        return None
    same = [endpoint for endpoint in broker.endpoints if endpoint.name == listener]
    return (same or list(broker.endpoints))[0]


def create(
    services: Services,
    topics: Sequence[NewTopic],
    done: Callable[[tuple[TopicResult, ...]], None],
    validate_only: bool = False,
) -> None:
    """Ask the controller for new topics; ids and the starting broker are drawn here."""
    clock = services.clock
    ids = (clock.new_uuid() for _ in repeat(None))
    start = clock.random.randrange(0, max(len(services.image.brokers), 1))
    services.controller.write(
        lambda image: create_topics(
            image, topics, services.topic_defaults(), ids, start, validate_only
        ),
        done,
    )


def auto_create(services: Services, name: str) -> ErrorCode:
    """Create a topic because somebody asked for it. NONE if it exists now."""
    outcome = [ErrorCode.LEADER_NOT_AVAILABLE]

    def created(results: tuple[TopicResult, ...]) -> None:
        outcome[0] = results[0].error

    try:
        create(services, [automatic_topic(services, name)], created)
    except LogError:
        return ErrorCode.LEADER_NOT_AVAILABLE  # nothing can be stored now; the client comes again
    if outcome[0] is ErrorCode.TOPIC_ALREADY_EXISTS:
        return ErrorCode.NONE
    if outcome[0] in (ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION):
        return outcome[0]
    if outcome[0] is ErrorCode.INVALID_REPLICATION_FACTOR:
        return outcome[0]
    return ErrorCode.LEADER_NOT_AVAILABLE


def automatic_topic(services: Services, name: str) -> NewTopic:
    """The shape of a topic that nobody described."""
    config = services.config
    if name != OFFSETS_TOPIC:
        return NewTopic(name)
    alive = max(len(services.image.alive_brokers()), 1)
    return NewTopic(
        name,
        partitions=config["offsets.topic.num.partitions"],
        replication_factor=min(config["offsets.topic.replication.factor"], alive),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config["offsets.topic.segment.bytes"]),
        },
    )
