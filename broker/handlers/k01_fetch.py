"""Fetch (1).

Behaviour: responds at once if there is enough to read, on an error or if the client does not wait;
else waits for `min_bytes` or `max_wait_ms`. Consumers read up to the high watermark, or with
read_committed up to the last stable offset, followers to the log's end; a follower's offset says
what it has, which advances the high watermark. The first partition with data returns at least one
batch, however large (KIP-74); an offset inside a batch returns that whole batch. Sessions
(KIP-227): a request names what changed, a response holds what is new. A consumer in another rack is
sent to a replica there if the broker has a replica selector (KIP-392). What would exceed a
consumer's quota is not sent: the response is empty and says how long to wait. Fetches of the
metadata log go to the quorum. While clients leave much unread, each reads less at a time (never
less than a batch); a waiting consumer fetch is the last request its connection accepts until it is
answered.

Versions: 4-18. 7 has session ids, 9 the leader epoch, 10 allows zstd, 11 the rack, 12 the diverging
epoch, 13 topic ids, 15 the replica state, 16 the new leader's address.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from broker.handlers.context import RequestContext
from broker.handlers.metadata_fetch import handle_metadata_fetch, is_metadata_fetch
from broker.handlers.partition_fetch import (
    FIRST_CLIENT_RACK_VERSION,
    MOVED,
    FetchParams,
    available_bytes,
    read_partition,
    update_follower,
)
from broker.handlers.topics import node_endpoints
from broker.log.errors import LogError
from broker.quotas.client_quotas import QuotaKind
from broker.replica.fetch.session_cache import (
    CachedPartition,
    CachedPartitionKey,
    FetchContext,
    FetchSession,
)
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Isolation
from broker.security.authorizer import CLUSTER_NAME, Operation, Resource
from bus.client.wire.fetch_session import FINAL_EPOCH, INITIAL_EPOCH
from bus.errors import ErrorCode
from bus.protocol.apis import ApiKey
from bus.protocol.frames import LENGTH, encode_response
from bus.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    NodeEndpoint,
    PartitionData,
)

FIRST_FLEXIBLE_VERSION = 12
FIRST_ID_VERSION = 13
FIRST_ENDPOINT_VERSION = 16
READ_COMMITTED = 1
COLD_WAIT_MS = 100
"""A fetch with max_wait_ms=0 still waits this long for data that is not in memory; otherwise it
would return nothing, every time."""
LEVELS = (0, READ_COMMITTED)
"""Isolation levels; any other is UNKNOWN_SERVER_ERROR in Kafka."""


@dataclass(slots=True)
class ResolvedFetch:
    """One request, resolved once; it may be read more than once while it waits."""

    params: FetchParams
    max_bytes: int
    min_bytes: int
    of: FetchContext


def handle(request: FetchRequest, context: RequestContext) -> FetchResponse | None:
    """Read now, or wait."""
    if is_metadata_fetch(request, context):
        return handle_metadata_fetch(request, context)
    fetch = _resolve(request, context)
    if isinstance(fetch, ErrorCode):
        return FetchResponse(error_code=fetch)
    # As Kafka, which looks at the level only where something is there to be read.
    if request.isolation_level not in LEVELS and any(one.partition for one in fetch.of.named):
        return _invalid_isolation_level(request, context)
    if _waits_unread(fetch, request):
        _wait(fetch, request, context)
        return None
    found = _read(fetch)
    if fetch.params.cold:
        enough = found.size_bytes > 0  # the rest is in memory at the next fetch
    else:
        enough = found.size_bytes >= fetch.min_bytes or request.max_wait_ms <= 0
    if enough or found.complete_now or not (fetch.of.named or fetch.of.session):
        return _answer(fetch, found, context)
    _wait(fetch, request, context)
    return None


def _invalid_isolation_level(request: FetchRequest, context: RequestContext) -> FetchResponse:
    """The error for the whole request, and per partition where topics are named, not ids."""
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


# --- resolving the request ---------------------------------------------------------------------


def _resolve(request: FetchRequest, context: RequestContext) -> ResolvedFetch | ErrorCode:
    params = _fetch_params(request, context)
    of = _fetch_context(request, context, params)
    if isinstance(of, ErrorCode):
        return of
    if of.session is not None:
        params.purgatory_key = of.session.key
    if params.is_follower:
        for entry in of.named:
            update_follower(entry, params)
        if of.session is not None:
            context.services.data_plane.replicas.leader_confirmation.on_request(of.session)
    limit = min(request.max_bytes, context.services.metadata.config["fetch.max.bytes"])
    if not params.is_follower and context.services.client_quotas.limits_fetch:
        limit = min(limit, context.most_fetched_bytes())
        return ResolvedFetch(params, limit, min(request.min_bytes, limit), of)
    return ResolvedFetch(params, limit, request.min_bytes, of)


def _fetch_context(
    request: FetchRequest, context: RequestContext, params: FetchParams
) -> FetchContext | ErrorCode:
    """The partitions of the request: all that it names, or those of its session."""
    replicas = context.services.data_plane.replicas
    sessions, now_ms = replicas.fetch_sessions, replicas.monotonic_ms()
    may_follow = _may_follow(params, context)
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        begun = list(_entries(request, context, may_follow))
        reader = (params.replica_id, params.broker_epoch)
        return sessions.begin(request.session_id, request.session_epoch, reader, begun, now_ms)
    session = sessions.resume(request.session_id, request.session_epoch, now_ms)
    if isinstance(session, ErrorCode):
        return session
    by_id = context.api_version >= FIRST_ID_VERSION
    for gone in request.forgotten_topics_data:
        for index in gone.partitions:
            session.forget((gone.topic_id if by_id else gone.topic, index))
    client = context.connection.session
    asker = (client.principal, client.host, context.services.metadata.image.acls)
    for entry in session.to_check(asker):
        _check_again(entry, session, context, may_follow)
    named = session.update(_entries(request, context, may_follow))
    return FetchContext(named, session, is_incremental=True)


def request_replica(request: FetchRequest) -> tuple[int, int]:
    """Replica id (-1 for a consumer) and broker epoch, in the fields of this version."""
    state = request.replica_state
    if state is not None and state.replica_id >= 0:
        return state.replica_id, state.replica_epoch
    return request.replica_id, -1


def _fetch_params(request: FetchRequest, context: RequestContext) -> FetchParams:
    replica_id, broker_epoch = request_replica(request)
    services = context.services
    if replica_id >= 0:
        if replica_id in services.metadata.image.brokers:
            most_bytes = services.metadata.config["replica.fetch.response.max.bytes"]
            context.connection.mark_as_broker(replica_id, most_bytes)
        isolation = Isolation.LOG_END
    elif request.isolation_level == READ_COMMITTED:
        isolation = Isolation.READ_COMMITTED
    else:
        isolation = Isolation.READ_UNCOMMITTED
    knows_racks = context.api_version >= FIRST_CLIENT_RACK_VERSION
    quotas = services.data_plane.replicas.replication_quotas
    return FetchParams(
        services=services,
        replica_id=replica_id,
        broker_epoch=broker_epoch,
        connection=context.connection,
        isolation=isolation,
        leader_only=replica_id >= 0 or not knows_racks,
        rack=request.rack_id if replica_id < 0 and quotas.serves_from_followers else "",
    )


def _may_follow(params: FetchParams, context: RequestContext) -> bool | None:
    """Whether a follower may read: it needs the permission of a node of the cluster, for all
    topics. None for a consumer, which needs that of each topic."""
    if not params.is_follower:
        return None
    return context.is_authorized(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME)


def _refusal(name: str, may_follow: bool | None, context: RequestContext) -> ErrorCode:
    allowed = may_follow
    if may_follow is None:
        allowed = context.is_authorized(Operation.READ, Resource.TOPIC, name)
    return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _entries(
    request: FetchRequest, context: RequestContext, may_follow: bool | None
) -> Iterable[tuple[CachedPartitionKey, CachedPartition]]:
    """The partitions of a request, with the broker's replicas of them."""
    by_id = context.api_version >= FIRST_ID_VERSION
    for topic in request.topics:
        name, error = topic.topic, ErrorCode.NONE
        if by_id:
            known = context.services.metadata.image.topic_by_id(topic.topic_id)
            name = "" if known is None else known.name
            error = ErrorCode.UNKNOWN_TOPIC_ID if known is None else error
        error = error or _refusal(name, may_follow, context)
        for ask in topic.partitions:
            entry = CachedPartition(name, topic.topic_id, ask.partition)
            _copy_fetch_params(entry, ask)
            _attach(entry, error, context)
            yield (topic.topic_id if by_id else name, ask.partition), entry


def _copy_fetch_params(entry: CachedPartition, ask: FetchPartition) -> None:
    entry.fetch_offset = ask.fetch_offset
    entry.max_bytes = ask.partition_max_bytes
    entry.current_leader_epoch = ask.current_leader_epoch
    entry.last_fetched_epoch = ask.last_fetched_epoch
    entry.log_start_offset = ask.log_start_offset


def _attach(entry: CachedPartition, error: ErrorCode, context: RequestContext) -> None:
    if not error:
        try:
            replicas = context.services.data_plane.replicas
            entry.attach(replicas.get(entry.topic, entry.index), ErrorCode.NONE)
            return
        except LogError as failure:
            error = failure.code
    entry.attach(None, error)


def _check_again(
    entry: CachedPartition,
    session: FetchSession,
    context: RequestContext,
    may_follow: bool | None,
) -> None:
    """A partition of earlier requests: whether its topic and replica exist by now, and whether the
    reader still has the permission."""
    if entry.error:
        known = context.services.metadata.image.topic_by_id(entry.topic_id)
        if known is not None:
            entry.topic = known.name
    if not entry.topic:
        return
    denied = _refusal(entry.topic, may_follow, context)
    if denied or entry.error:
        _attach(entry, denied, context)
        session.dirty[entry] = None


# --- reading -----------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadResult:
    """The result of a read. ``complete_now``: an error or a change that must not wait."""

    partitions: list[tuple[CachedPartition, PartitionData]]
    size_bytes: int = 0
    complete_now: bool = False


def _read(fetch: ResolvedFetch) -> ReadResult:
    """Read every partition that may have something."""
    found = ReadResult([])
    of, params = fetch.of, fetch.params
    left_bytes = params.connection.limit_read(fetch.max_bytes)
    for entry in of.candidates():
        data = read_partition(entry, params, left_bytes, found.size_bytes == 0)
        size = len(data.records) if data.records else 0
        if data.error_code or data.diverging_epoch is not None or data.preferred_read_replica >= 0:
            found.complete_now = True
        elif not size and of.is_left_out(
            entry, data.high_watermark, data.log_start_offset, params.isolation
        ):
            continue
        found.size_bytes += size
        left_bytes = max(left_bytes - size, 0)
        found.partitions.append((entry, data))
    return found


def _answer(fetch: ResolvedFetch, found: ReadResult, context: RequestContext) -> FetchResponse:
    """The response, which is sent now: the session records what its reader then knows."""
    response = _response(fetch, found)
    replicas = context.services.data_plane.replicas
    if (
        not fetch.params.is_follower
        and context.services.client_quotas.limits_fetch
        and context.has_quota(QuotaKind.FETCH)  # else nobody asks how large the response is
        and context.charge(QuotaKind.FETCH, _size_bytes(response, context), is_refused=True)
    ):
        return _empty(fetch, replicas)
    moved_to = []
    of, has_session = fetch.of, fetch.of.session is not None
    of.on_response()
    for entry, data in found.partitions:
        if data.error_code in MOVED and data.current_leader is not None:
            moved_to.append(data.current_leader.leader_id)
        if data.records and entry.partition is not None:
            replicas.count_fetched(entry.partition, fetch.params.replica_id, len(data.records))
        if has_session:
            of.on_sent(
                entry, data.high_watermark, data.log_start_offset, bool(data.records),
                data.diverging_epoch is not None,
            )  # fmt: skip
    if moved_to and context.api_version >= FIRST_ENDPOINT_VERSION:
        response.node_endpoints = [
            NodeEndpoint(*place) for place in node_endpoints(context, moved_to)
        ]
    return response


def _response(fetch: ResolvedFetch, found: ReadResult) -> FetchResponse:
    topics: dict[tuple[str, bytes], list[PartitionData]] = {}
    for entry, data in found.partitions:
        topics.setdefault((entry.topic, entry.topic_id), []).append(data)
    return FetchResponse(
        session_id=fetch.of.session_id,
        responses=[
            FetchableTopicResponse(topic=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in topics.items()
        ],
    )


def _size_bytes(response: FetchResponse, context: RequestContext) -> int:
    """As Kafka counts a response for the quota: with the length before it, without the header."""
    chunks = encode_response(ApiKey.FETCH, context.api_version, 0, response)
    header_bytes = LENGTH.size + (context.api_version >= FIRST_FLEXIBLE_VERSION)
    return sum(map(len, chunks)) - header_bytes


def _empty(fetch: ResolvedFetch, replicas: ReplicaManager) -> FetchResponse:
    """Nothing, for a reader over its quota: what there is comes with its next fetch. A session that
    was to begin has not begun, as its reader would miss the rest."""
    of = fetch.of
    if of.session is None or of.is_incremental:
        return FetchResponse(session_id=of.session_id, responses=[])
    replicas.fetch_sessions.remove(of.session.id)
    return FetchResponse(responses=[])


# --- waiting -----------------------------------------------------------------------------------


def _wait(fetch: ResolvedFetch, request: FetchRequest, context: RequestContext) -> None:
    """Respond when there is enough data, a partition can no longer be read, or time is over."""
    if not fetch.params.is_follower:
        context.connection.pause_requests()

    def answer() -> None:
        context.reply(_answer(fetch, _read(fetch), context))

    def try_complete() -> bool:
        if not _is_enough(fetch, fetch.min_bytes):
            return False
        found = _read(fetch)
        if fetch.params.cold and not found.size_bytes and not found.complete_now:
            return False
        context.reply(_answer(fetch, found, context))
        return True

    keys: list[tuple[str, int]]
    if fetch.of.session is not None:
        keys = [fetch.of.session.key]
    else:
        keys = [entry.partition.key for entry in fetch.of.named if entry.partition is not None]
    context.services.data_plane.replicas.fetch_purgatory.watch(
        keys,
        max(request.max_wait_ms, COLD_WAIT_MS if fetch.params.cold else 0),
        try_complete,
        answer,
    )


def _waits_unread(fetch: ResolvedFetch, request: FetchRequest) -> bool:
    """Whether a fetch outside any session waits for sure. Such a client names all its partitions in
    every request; to read each of them only to find nothing would be most of the cost."""
    return (
        fetch.of.session is None
        and bool(fetch.of.named)
        and fetch.min_bytes > 0
        and request.max_wait_ms > 0
        and not fetch.params.rack
        and all(entry.last_fetched_epoch < 0 for entry in fetch.of.named)
        and not _is_enough(fetch, fetch.min_bytes)
    )


def _is_enough(fetch: ResolvedFetch, min_bytes: int) -> bool:
    """Whether `min_bytes` are readable, or there is an error to respond with."""
    if fetch.of.must_respond:
        return True
    total = 0
    is_follower = fetch.params.is_follower
    quotas = fetch.params.services.data_plane.replicas.replication_quotas
    sends_watermark = is_follower and quotas.serves_from_followers
    for entry in fetch.of.candidates():
        unread = available_bytes(entry, fetch.params, min_bytes)
        if unread < 0:
            return True
        if (
            sends_watermark
            and entry.partition is not None
            and (entry.sent_watermark != entry.partition.high_watermark)
        ):
            return True
        if entry not in fetch.params.cold:
            total += unread
        if total and total >= min_bytes:
            return True
    return False
