"""A client's side of a fetch session (KIP-227): requests name only what changed. Pure.

In: the partitions to fetch, those that changed, the leader's responses. Out: what the next request
names. Never: a connection, a clock, a position: the user says what it fetches of a partition.

The first request of a session names everything, later ones only what has changed since. After a
response that may not belong to the session, the next request closes it and begins a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, NamedTuple, TypeVar

from bus.errors import ErrorCode
from bus.protocol.generated.fetch import FetchPartition, FetchTopic, ForgottenTopic

PartitionKey = tuple[bytes, int]
"""Topic id and partition."""

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_EPOCH = (1 << 31) - 1

Fetched = TypeVar("Fetched")


class SessionStep(NamedTuple, Generic[Fetched]):
    """What a request names; a full one begins a session."""

    session_id: int
    epoch: int
    named: list[PartitionKey]
    forgotten: Mapping[PartitionKey, Fetched]


class ClientFetchSession(Generic[Fetched]):
    """`Fetched` is what the user knows of a partition.

    Invariant: while `_epoch` is not INITIAL_EPOCH, what the session holds at the leader is
    ``partitions`` as of the last request, ``_changed`` and ``_forgotten`` being the difference.
    """

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._partitions: dict[PartitionKey, Fetched] = {}
        self._changed: dict[PartitionKey, None] = {}
        self._forgotten: dict[PartitionKey, Fetched] = {}
        self._in_session: dict[PartitionKey, None] = {}

    @property
    def partitions(self) -> Mapping[PartitionKey, Fetched]:
        """What is fetched."""
        return self._partitions

    def add(self, key: PartitionKey, fetched: Fetched) -> None:
        """Fetch a partition, also if it was added before."""
        self._partitions[key] = fetched
        self._changed[key] = None
        self._forgotten.pop(key, None)

    def mark_changed(self, key: PartitionKey) -> None:
        """The next request names it again."""
        self._changed[key] = None

    def is_changed(self, key: PartitionKey) -> bool:
        """Whether the last request did not yet name what is fetched of it now."""
        return key in self._changed

    def remove(self, key: PartitionKey) -> None:
        """Stop fetching it."""
        fetched = self._partitions.pop(key, None)
        self._changed.pop(key, None)
        if fetched is not None and key in self._in_session:
            self._forgotten[key] = fetched

    def next_step(self) -> SessionStep[Fetched] | None:
        """What the next request names; None while there is nothing to fetch and to forget."""
        is_full = self._epoch == INITIAL_EPOCH
        if not self._partitions and (is_full or not self._forgotten):
            self._forgotten = {}
            return None
        named = list(self._partitions if is_full else self._changed)
        forgotten = {} if is_full else self._forgotten
        if is_full:
            self._in_session = dict.fromkeys(named)
        else:
            for key in forgotten:
                self._in_session.pop(key, None)
            self._in_session.update(dict.fromkeys(named))
        self._forgotten, self._changed = {}, {}
        return SessionStep(self._session_id, self._epoch, named, forgotten)

    def handle_response(self, error_code: int, session_id: int) -> bool:
        """Handle the response to the last request; whether its partitions may be used."""
        if error_code:
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._session_id = NO_SESSION
            self.reset()
            return False
        if self._epoch == INITIAL_EPOCH:
            self._session_id = session_id
            self._epoch = INITIAL_EPOCH if session_id == NO_SESSION else 1
        elif session_id != self._session_id:
            self.reset()
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return True

    def reset(self) -> None:
        """No usable response came: the leader may or may not have handled the request."""
        self._epoch = INITIAL_EPOCH
        self._in_session = {}


def fetch_topics(named: Iterable[tuple[PartitionKey, str, FetchPartition]]) -> list[FetchTopic]:
    """Partitions by topic; each with its topic's name, which old leaders read instead of the id."""
    topics: dict[bytes, FetchTopic] = {}
    for (topic_id, _), name, partition in named:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = FetchTopic(name, topic_id, [])
        topic.partitions.append(partition)
    return list(topics.values())


def forgotten_topics(forgotten: Iterable[tuple[PartitionKey, str]]) -> list[ForgottenTopic]:
    """The same of what the session shall forget."""
    topics: dict[bytes, ForgottenTopic] = {}
    for (topic_id, index), name in forgotten:
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ForgottenTopic(name, topic_id, [])
        topic.partitions.append(index)
    return list(topics.values())
