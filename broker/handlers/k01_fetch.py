"""Fetch (1).

Behaviour: answers at once if there is enough to read, anything is wrong or the client does not
wait; else waits for `min_bytes` or `max_wait_ms`. Consumers read up to the high watermark, or with
read_committed up to the last stable offset, followers to the log's end; a follower's offset says
what it has, which moves the high watermark. The first partition with data gives at least one batch,
however large (KIP-74); an offset inside a batch gives that whole batch. Sessions (KIP-227): a
request names what changed, an answer holds what is new. A consumer in another rack is sent to a
replica there if the broker has a replica selector (KIP-392). The metadata log is its quorum's.
While clients leave much unread, one reads less at a time (never less than a batch); a consumer's
fetch that waits is the last request its connection takes until it is answered.

Versions: 4-18. 7 has session ids, 9 the leader epoch, 10 allows zstd, 11 the rack, 12 the diverging
epoch, 13 topic ids, 15 the replica state, 16 the new leader's address.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.handlers.context import RequestContext
from broker.handlers.fetch_reading import (
    FIRST_CLIENT_RACK_VERSION,
    MOVED,
    Reader,
    note_follower,
    read_entry,
    unread_bytes,
)
from broker.handlers.metadata_fetch import handle_metadata_fetch, is_metadata_fetch
from broker.handlers.topics import node_endpoints
from broker.log.errors import LogError
from broker.replica.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    Entry,
    EntryKey,
    FetchSession,
)
from broker.replica.partition import Isolation
from broker.security.authorizer import Operation, Resource
from bus.errors import ErrorCode
from bus.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

FIRST_ID_VERSION = 13
FIRST_ENDPOINT_VERSION = 16
READ_COMMITTED = 1
COLD_WAIT_MS = 100
"""A client that does not wait still waits so long for what is not in memory, or asks in vain."""
LEVELS = (0, READ_COMMITTED)
"""Isolation levels; any other is an error that Kafka has not foreseen."""


@dataclass(slots=True)
class Fetch:
    """One request, resolved once; it may be read more than once while it waits.

    Without a session ``entries`` are all it asks for; with one those that were touched.
    """

    reader: Reader
    max_bytes: int
    entries: list[Entry]
    session: FetchSession | None
    is_incremental: bool


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | None:
    """Read now, or wait."""
    if is_metadata_fetch(request, context):
        return handle_metadata_fetch(request, context)
    if request.isolation_level not in LEVELS:
        return _no_such_level(request, context)
    fetch = _resolve(request, context)
    if isinstance(fetch, ErrorCode):
        return FetchResponse(error_code=fetch)
    found = _read(fetch)
    if fetch.reader.cold:
        enough = found.size_bytes > 0  # the rest is in memory when they ask again
    else:
        enough = found.size_bytes >= request.min_bytes or request.max_wait_ms <= 0
    if enough or found.urgent or not (fetch.entries or fetch.session):
        return _answer(fetch, found, context)
    _wait(fetch, request, context)
    return None


def _no_such_level(request: FetchRequest, context: RequestContext) -> FetchResponse:
    """Refused as a whole, and per partition where those are named and not numbered."""
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    by_id = context.api_version >= FIRST_ID_VERSION
    topics = [
        FetchableTopicResponse(
            topic=topic.topic,
            partitions=[
                PartitionData(
                    partition_index=ask.partition,
                    error_code=error,
                    high_watermark=-1,
                    aborted_transactions=[],
                    records=b"",
                )
                for ask in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return FetchResponse(error_code=error, responses=[] if by_id else topics)


# --- who asks for what -------------------------------------------------------------------------


def _resolve(request: FetchRequest, context: RequestContext) -> Fetch | ErrorCode:
    reader = _reader(request, context)
    sessions = context.services.replicas.fetch_sessions
    limit = min(request.max_bytes, context.services.config["fetch.max.bytes"])
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id:
            sessions.remove(request.session_id)
        named = list(_entries(request, context))
        session = None
        if request.session_epoch == INITIAL_EPOCH and named:
            whose = (request_replica(request)[0], reader.broker_epoch)
            session = sessions.create(whose, named, context.services.replicas.monotonic_ms())
        entries = [entry for _, entry in named]
        fetch = Fetch(reader, limit, entries, session, is_incremental=False)
    else:
        found = _continue_session(request, context)
        if isinstance(found, ErrorCode):
            return found
        session, entries = found
        fetch = Fetch(reader, limit, entries, session, is_incremental=True)
    if session is not None:
        reader.wakes = session.key
    if reader.is_follower:
        for entry in entries:
            note_follower(entry, reader)
        if session is not None:
            context.services.replicas.proofs.on_request(session)
    return fetch


def request_replica(request: FetchRequest) -> tuple[int, int]:
    """Replica id (-1 for a consumer) and broker epoch, wherever the version has them."""
    state = request.replica_state
    if state is not None and state.replica_id >= 0:
        return state.replica_id, state.replica_epoch
    return request.replica_id, -1


def _reader(request: FetchRequest, context: RequestContext) -> Reader:
    replica_id, broker_epoch = request_replica(request)
    services = context.services
    if replica_id >= 0:
        if replica_id in services.image.brokers:
            most_bytes = services.config["replica.fetch.response.max.bytes"]
            context.session.line.is_from_broker(replica_id, most_bytes)
        isolation = Isolation.LOG_END
    elif request.isolation_level == READ_COMMITTED:
        isolation = Isolation.READ_COMMITTED
    else:
        isolation = Isolation.READ_UNCOMMITTED
    knows_racks = context.api_version >= FIRST_CLIENT_RACK_VERSION
    may_be_sent = replica_id < 0 and services.replicas.throttles.serves_from_followers
    return Reader(
        services=services,
        replica_id=replica_id,
        broker_epoch=broker_epoch,
        line=context.session.line,
        isolation=isolation,
        only_leader=replica_id >= 0 or not knows_racks,
        rack=request.rack_id if may_be_sent else "",
    )


def _entries(request: FetchRequest, context: RequestContext) -> Iterable[tuple[EntryKey, Entry]]:
    """The partitions a request names, with what the broker has of them."""
    by_id = context.api_version >= FIRST_ID_VERSION
    for topic in request.topics:
        name, error = topic.topic, ErrorCode.NONE
        if by_id:
            known = context.services.image.topic_by_id(topic.topic_id)
            name = "" if known is None else known.name
            error = ErrorCode.UNKNOWN_TOPIC_ID if known is None else error
        if not error and not context.may(Operation.READ, Resource.TOPIC, name):
            error = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for ask in topic.partitions:
            entry = Entry(name, topic.topic_id, ask.partition)
            _take_wishes(entry, ask)
            _attach(entry, error, context)
            yield (topic.topic_id if by_id else name, ask.partition), entry


def _take_wishes(entry: Entry, ask: FetchPartition) -> None:
    entry.fetch_offset = ask.fetch_offset
    entry.max_bytes = ask.partition_max_bytes
    entry.current_leader_epoch = ask.current_leader_epoch
    entry.last_fetched_epoch = ask.last_fetched_epoch
    entry.log_start_offset = ask.log_start_offset


def _attach(entry: Entry, error: ErrorCode, context: RequestContext) -> None:
    if not error:
        try:
            entry.attach(context.services.replicas.get(entry.topic, entry.index), ErrorCode.NONE)
            return
        except LogError as failure:
            error = failure.code
    entry.attach(None, error)


def _continue_session(
    request: FetchRequest, context: RequestContext
) -> tuple[FetchSession, list[Entry]] | ErrorCode:
    """The session of an incremental request, and the entries this request names."""
    replicas = context.services.replicas
    session = replicas.fetch_sessions.take(
        request.session_id, request.session_epoch, replicas.monotonic_ms()
    )
    if isinstance(session, ErrorCode):
        return session
    by_id = context.api_version >= FIRST_ID_VERSION
    for gone in request.forgotten_topics_data:
        for index in gone.partitions:
            session.forget((gone.topic_id if by_id else gone.topic, index))
    for entry in [entry for entry in session.touched if entry.error]:
        _look_again(entry, context)
    named = []
    for key, wished in _entries(request, context):
        known = session.entries.get(key)
        if known is None:
            partition, wished.partition = wished.partition, None
            session.put(key, wished)
            wished.attach(partition, wished.error)
        else:
            _adopt(known, wished)
        entry = known or wished
        session.touched[entry] = None
        named.append(entry)
    return session, named


def _adopt(entry: Entry, wished: Entry) -> None:
    entry.topic = wished.topic
    entry.fetch_offset = wished.fetch_offset
    entry.max_bytes = wished.max_bytes
    entry.current_leader_epoch = wished.current_leader_epoch
    entry.last_fetched_epoch = wished.last_fetched_epoch
    entry.log_start_offset = wished.log_start_offset
    entry.attach(wished.partition, wished.error)


def _look_again(entry: Entry, context: RequestContext) -> None:
    """What was refused may have come about since."""
    known = context.services.image.topic_by_id(entry.topic_id)
    if known is not None:
        entry.topic = known.name
    if entry.topic:
        _attach(entry, ErrorCode.NONE, context)


# --- reading -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Found:
    """What a read found. ``urgent``: an error or news that must not wait."""

    told: list[tuple[Entry, PartitionData]]
    size_bytes: int = 0
    urgent: bool = False


def _candidates(fetch: Fetch) -> list[Entry]:
    if fetch.session is not None and fetch.is_incremental:
        return list(fetch.session.touched)
    return fetch.entries


def _read(fetch: Fetch) -> Found:
    """Read every partition that may have something."""
    found = Found([])
    left_bytes = fetch.reader.line.cut(fetch.max_bytes)
    for entry in _candidates(fetch):
        data = read_entry(entry, fetch.reader, left_bytes, found.size_bytes == 0)
        size = len(data.records) if data.records else 0
        if data.error_code or data.diverging_epoch is not None or data.preferred_read_replica >= 0:
            found.urgent = True
        elif fetch.is_incremental and not size and not _is_news(entry, data):
            _settle(fetch, entry)
            continue
        found.size_bytes += size
        left_bytes = max(left_bytes - size, 0)
        found.told.append((entry, data))
    return found


def _is_news(entry: Entry, data: PartitionData) -> bool:
    return (
        entry.sent_watermark != data.high_watermark or entry.sent_log_start != data.log_start_offset
    )


def _settle(fetch: Fetch, entry: Entry) -> None:
    """Look at the entry no more until it is touched, if all of it has been read."""
    partition = entry.partition
    if fetch.session is None or partition is None:
        return
    if entry.fetch_offset >= partition.end_for(fetch.reader.isolation):
        fetch.session.touched.pop(entry, None)


def _answer(fetch: Fetch, found: Found, context: RequestContext) -> FetchResponse:
    """The response, which is sent now: the session notes what its reader knows then."""
    topics: dict[tuple[str, bytes], list[PartitionData]] = {}
    replicas, session = context.services.replicas, fetch.session
    moved_to = []
    if session is not None:
        session.poked = False
    for entry, data in found.told:
        topics.setdefault((entry.topic, entry.topic_id), []).append(data)
        if data.error_code in MOVED and data.current_leader is not None:
            moved_to.append(data.current_leader.leader_id)
        if data.records and entry.partition is not None:
            replicas.count_fetched(entry.partition, fetch.reader.replica_id, len(data.records))
        if session is not None:
            entry.sent_watermark = data.high_watermark
            entry.sent_log_start = data.log_start_offset
            if data.records and entry in session.touched:
                # Behind all others for the next answer, so that none starves (KIP-227).
                del session.touched[entry]
                session.touched[entry] = None
    response = FetchResponse(
        session_id=0 if session is None else session.id,
        responses=[
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in topics.items()
        ],
    )
    if moved_to and context.api_version >= FIRST_ENDPOINT_VERSION:
        response.node_endpoints = [
            NodeEndpoint(*place) for place in node_endpoints(context, moved_to)
        ]
    return response


# --- waiting -----------------------------------------------------------------------------------


def _wait(fetch: Fetch, request: FetchRequest, context: RequestContext) -> None:
    """Answer when enough has come, a partition can no longer be read, or time is over."""
    if not fetch.reader.is_follower:
        context.session.line.hold()

    def answer() -> None:
        context.reply(_answer(fetch, _read(fetch), context))

    def try_complete() -> bool:
        if not _is_enough(fetch, request.min_bytes):
            return False
        found = _read(fetch)
        if fetch.reader.cold and not found.size_bytes and not found.urgent:
            return False
        context.reply(_answer(fetch, found, context))
        return True

    keys: list[tuple[str, int]]
    if fetch.session is not None:
        keys = [fetch.session.key]
    else:
        keys = [entry.partition.key for entry in fetch.entries if entry.partition is not None]
    context.services.replicas.fetch_purgatory.watch(
        keys,
        max(request.max_wait_ms, COLD_WAIT_MS if fetch.reader.cold else 0),
        try_complete,
        answer,
    )


def _is_enough(fetch: Fetch, min_bytes: int) -> bool:
    """Whether `min_bytes` are readable, or something is wrong that the client should hear."""
    if fetch.session is not None and fetch.session.poked:
        return True
    total = 0
    is_follower = fetch.reader.is_follower
    tells_watermark = is_follower and fetch.reader.services.replicas.throttles.serves_from_followers
    for entry in _candidates(fetch):
        unread = unread_bytes(entry, fetch.reader, min_bytes)
        if unread < 0:
            return True
        if (
            tells_watermark
            and entry.partition is not None
            and (entry.sent_watermark != entry.partition.high_watermark)
        ):
            return True
        if entry not in fetch.reader.cold:
            total += unread
        if total and total >= min_bytes:
            return True
    return False
