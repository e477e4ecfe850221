"""The two images of a node: what is committed, and what is decided on top of it.

In: decisions while leading, stored batches, the high watermark. Out: changes to publish and answers
to give, in the order of the log. Never: I/O. Invariant: `newest` is `committed` with the changes of
`_pending` on top, in order; while not leading they are the same image.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from broker.controller.kraft.batches import StoredBatch
from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode

MAX_PENDING = 10_000
"""Decisions that wait for their commit. More would mean a leader that has lost its quorum takes
requests faster than its check-quorum time-out; they are told to come again."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """One decision in the log, not committed yet. `changes` is None where nothing was recorded."""

    end_offset: int
    changes: Changes | None
    done: Callable[[], None] | None = None
    failed: Callable[[ErrorCode], None] | None = None


class Images:
    """Committed and newest image, and who waits between them."""

    def __init__(
        self,
        empty: MetadataImage,
        publish: Callable[[Changes], None],
        refused: Callable[[object, Exception], None],
    ) -> None:
        """`refused` hears of a stored record that the images cannot take in and leave out: every
        node leaves out the same one, and it comes again at every start."""
        self._refused = refused
        self.committed = empty
        self.newest = empty
        self.replayed_offset = 0
        """Everything in the log below it is in `newest`."""
        self._publish = publish
        self._pending: deque[Waiting] = deque()

    @property
    def is_full(self) -> bool:
        """Whether another decision would be one too many."""
        return len(self._pending) >= MAX_PENDING

    def add(self, waiting: Waiting) -> None:
        """A decision was appended (or found nothing to record)."""
        if waiting.changes is not None:
            self.newest = waiting.changes.image
        self._pending.append(waiting)

    def replay(self, batches: Iterable[StoredBatch]) -> None:
        """Batches of the log that nobody here decided: of a leader, or of an earlier life."""
        for batch in batches:
            self.replayed_offset = batch.last_offset + 1
            if not batch.records:
                continue
            delta = MetadataDelta(self.newest)
            self.take_in(delta, batch.records)
            changes = self.applied(delta, batch.last_offset, batch.epoch)
            self.add(Waiting(batch.last_offset + 1, changes))

    def take_in(self, delta: MetadataDelta, records: Iterable[object]) -> None:
        """Replay what stands in the log."""
        for record in records:
            try:
                delta.replay(record)
            except Exception as error:
                self._refused(record, error)

    def applied(self, delta: MetadataDelta, offset: int, epoch: int) -> Changes:
        """The next image, `offset` being that of the last record taken in."""
        changes = delta.apply(offset, epoch)
        for what in delta.left_out:
            self._refused(what, LookupError("it leaves a gap"))
        return changes

    def commit(self, offset: int) -> None:
        """Everything below `offset` is committed: publish and answer, in order."""
        while self._pending and self._pending[0].end_offset <= offset:
            waiting = self._pending.popleft()
            if waiting.changes is not None:
                self.committed = waiting.changes.image
                self._publish(waiting.changes)
            if waiting.done is not None:
                waiting.done()

    def publish(self, changes: Changes) -> None:
        """Tell the rooms of a snapshot that was taken over while they run."""
        self._publish(changes)

    def drop_pending(self) -> None:
        """This node leads no longer: what it decided may or may not stand."""
        dropped, self._pending = self._pending, deque()
        self.newest = self.committed
        self.replayed_offset = self.committed.offset + 1
        for waiting in dropped:
            if waiting.failed is not None:
                waiting.failed(ErrorCode.NOT_CONTROLLER)

    def replace(self, batches: Iterable[StoredBatch], offset: int, epoch: int) -> Changes:
        """A snapshot takes the place of everything; the changes are not published here."""
        previous = self.committed
        delta = MetadataDelta(MetadataImage(cluster_id=previous.cluster_id))
        for batch in batches:
            self.take_in(delta, batch.records)
        changes = _against(previous, self.applied(delta, offset - 1, epoch))
        self._pending.clear()
        self.committed = self.newest = changes.image
        self.replayed_offset = offset
        return changes


def _against(previous: MetadataImage, whole: Changes) -> Changes:
    """All of an image as changes, with what it no longer has."""
    gone = tuple(
        topic for topic in previous.topics.values() if topic.topic_id not in whole.image.topic_names
    )
    configs = dict.fromkeys((*previous.configs, *whole.changed_configs))
    brokers = dict.fromkeys((*previous.brokers, *whole.changed_brokers))
    features = dict.fromkeys((*previous.features, *whole.changed_features))
    quotas = dict.fromkeys((*previous.client_quotas, *whole.changed_quotas))
    return replace(
        whole,
        previous=previous,
        deleted_topics=gone,
        changed_configs=tuple(configs),
        changed_brokers=tuple(brokers),
        changed_features=tuple(features),
        changed_quotas=tuple(quotas),
    )
