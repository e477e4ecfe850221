"""Topic helpers of several handlers: internal names, endpoints of leaders, auto-creation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import repeat

from broker.controller.decisions.decision import Charge, Decision, free_of_charge
from broker.controller.decisions.topics import NewTopic, TopicResult, create_topics
from broker.handlers.context import RequestContext
from broker.handlers.services import Services
from broker.log.errors import LogError
from broker.metadata.image import Endpoint, MetadataImage, PartitionImage
from bus.errors import ErrorCode

CREATION_WAIT_S = 0.1
"""How long a response waits for a topic that is created because of it; clients retry after the same
time."""

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_TOPIC = "__share_group_state"
METADATA_TOPIC = "__cluster_metadata"

_INTERNAL = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC, METADATA_TOPIC})


def is_internal(name: str) -> bool:
    """Whether clients may read but not write the topic."""
    return name in _INTERNAL


def is_reserved(name: str, reserved: Sequence[str]) -> bool:
    """Whether a mirror will create this topic: it must not begin with records of this site."""
    return any(
        name.startswith(one[:-1]) if one.endswith("*") else name == one for one in reserved
    )


def endpoint_of(image: MetadataImage, broker_id: int, listener: str) -> Endpoint | None:
    """The endpoint at which clients of this listener reach a broker."""
    broker = image.brokers.get(broker_id)
    if broker is None or not broker.endpoints:
        return None
    same = [endpoint for endpoint in broker.endpoints if endpoint.name == listener]
    return (same or list(broker.endpoints))[0]


def leader_of(image: MetadataImage, topic: str, index: int) -> tuple[int, int] | None:
    """Leader and leader epoch of a partition by the newest metadata."""
    found = image.topics.get(topic)
    if found is None or index >= len(found.partitions):
        return None
    return found.partitions[index].leader, found.partitions[index].leader_epoch


def node_endpoints(
    context: RequestContext, nodes: Iterable[int]
) -> list[tuple[int, str, int, str | None]]:
    """Id, host, port and rack of brokers, without duplicates, for a client to retry at
    (KIP-951)."""
    image, listener = context.services.metadata.image, context.session.listener
    places = []
    for node in sorted(set(nodes)):
        endpoint = endpoint_of(image, node, listener)
        if endpoint is not None:
            places.append((node, endpoint.host, endpoint.port, image.brokers[node].rack))
    return places


def offline_replicas(image: MetadataImage, partition: PartitionImage) -> list[int]:
    """Replicas on brokers that are gone or fenced, or whose log directory has failed."""
    return [
        replica
        for replica in partition.replicas
        if (broker := image.brokers.get(replica)) is None
        or broker.fenced
        or not broker.has_online_directory(partition.directory_of(replica))
    ]


def leader_for_clients(partition: PartitionImage, offline: Sequence[int]) -> tuple[int, ErrorCode]:
    """The leader for clients, -1 with LEADER_NOT_AVAILABLE if there is none; ``offline`` is the
    result of `offline_replicas`."""
    if partition.leader < 0 or partition.leader in offline:
        return -1, ErrorCode.LEADER_NOT_AVAILABLE
    return partition.leader, ErrorCode.NONE


def create(
    services: Services,
    topics: Sequence[NewTopic],
    done: Callable[[tuple[TopicResult, ...]], None],
    validate_only: bool = False,
    failed: Callable[[ErrorCode], None] | None = None,
    charge: Charge = free_of_charge,
) -> None:
    """Ask the controller for new topics; ids and the first broker are chosen at random here."""
    clock = services.clock
    ids = (clock.new_uuid() for _ in repeat(None))
    start = clock.random.randrange(0, max(len(services.metadata.image.brokers), 1))
    services.control_plane.controller.write(
        lambda image: create_topics(
            image, topics, services.topic_creation.defaults(), ids, start, validate_only, charge
        ),
        done,
        failed,
    )


def after_creation(services: Services, answer: Callable[[], None]) -> None:
    """Call `answer` when all decisions of this node, the active controller, so far are stored; or
    after a moment, so that a slow metadata directory delays no client."""
    is_answered = False

    def once(*_: object) -> None:
        nonlocal is_answered
        if not is_answered:
            is_answered = True
            timer.cancel()
            answer()

    timer = services.clock.call_later(CREATION_WAIT_S, once)
    services.control_plane.controller.write(lambda _: Decision((), None), once, once)


def auto_create(services: Services, name: str) -> ErrorCode:
    """Create a topic on its first use. NONE if it exists now; LEADER_NOT_AVAILABLE if it will
    soon, on this node by `after_creation`."""
    if not services.control_plane.controller.is_active:
        return services.topic_creation.auto.request(automatic_topic(services, name))
    outcome = [ErrorCode.LEADER_NOT_AVAILABLE]

    def created(results: tuple[TopicResult, ...]) -> None:
        outcome[0] = results[0].error

    try:
        create(services, [automatic_topic(services, name)], created, failed=lambda _error: None)
    except LogError:
        return ErrorCode.LEADER_NOT_AVAILABLE  # nothing can be stored now; the client retries
    if outcome[0] is ErrorCode.TOPIC_ALREADY_EXISTS:
        return ErrorCode.NONE
    if outcome[0] in (ErrorCode.NONE, ErrorCode.INVALID_TOPIC_EXCEPTION):
        return outcome[0]
    if outcome[0] is ErrorCode.INVALID_REPLICATION_FACTOR:
        return outcome[0]
    return ErrorCode.LEADER_NOT_AVAILABLE


def automatic_topic(services: Services, name: str) -> NewTopic:
    """The partitions and replicas of an automatically created topic."""
    config = services.metadata.config
    if name != OFFSETS_TOPIC:
        return NewTopic(name)
    factor = config["offsets.topic.replication.factor"]
    return NewTopic(
        name,
        partitions=config["offsets.topic.num.partitions"],
        # A cluster of one process has no second broker to wait for.
        replication_factor=1 if services.topic_creation.is_alone else factor,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config["offsets.topic.segment.bytes"]),
        },
    )
