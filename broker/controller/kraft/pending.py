"""The two images of a node: the committed one, and the newest one with pending decisions applied.

In: decisions while leading, stored batches, the high watermark. Out: changes to publish and
replies, in log order. Never: I/O. Invariant: `newest` is `committed` with the changes of `_pending`
applied in order; while not leading they are the same image.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from broker.controller.kraft.storage.records import StoredBatch
from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode

MAX_PENDING = 10_000
"""Decisions waiting for their commit. More would mean that a leader without a quorum accepts
requests faster than its check-quorum timeout; further requests fail and are retried."""


@dataclass(frozen=True, slots=True)
class PendingDecision:
    """A decision in the log that is not committed yet. `changes` is None where nothing was
    recorded."""

    end_offset: int
    changes: Changes | None
    done: Callable[[], None] | None = None
    failed: Callable[[ErrorCode], None] | None = None


class MetadataState:
    """The committed and the newest image, and the decisions between them."""

    def __init__(
        self,
        empty: MetadataImage,
        publish: Callable[[Changes], None],
        refused: Callable[[object, Exception], None],
    ) -> None:
        """`refused` is called for a stored record that cannot be applied and is left out: every
        node leaves out the same one, at every start."""
        self._on_left_out = refused
        self.committed = empty
        self.newest = empty
        self.replayed_offset = 0
        """Everything in the log below it is in `newest`."""
        self._publish = publish
        self._pending: deque[PendingDecision] = deque()

    @property
    def is_full(self) -> bool:
        """Whether no further decision is accepted."""
        return len(self._pending) >= MAX_PENDING

    def add(self, decision: PendingDecision) -> None:
        """A decision was appended (or had nothing to record)."""
        if decision.changes is not None:
            self.newest = decision.changes.image
        self._pending.append(decision)

    def replay(self, batches: Iterable[StoredBatch]) -> None:
        """Applies batches that were not decided here: by another leader, or before a restart."""
        for batch in batches:
            self.replayed_offset = batch.last_offset + 1
            if not batch.records:
                continue
            delta = MetadataDelta(self.newest)
            self.replay_records(delta, batch.records)
            changes = self.apply(delta, batch.last_offset, batch.epoch)
            self.add(PendingDecision(batch.last_offset + 1, changes))

    def replay_records(self, delta: MetadataDelta, records: Iterable[object]) -> None:
        """Applies records of the log."""
        for record in records:
            try:
                delta.replay(record)
            except Exception as error:
                self._on_left_out(record, error)

    def apply(self, delta: MetadataDelta, offset: int, epoch: int) -> Changes:
        """The next image; `offset` is that of the last applied record."""
        changes = delta.apply(offset, epoch)
        for what in delta.skipped:
            self._on_left_out(what, LookupError("it leaves a gap"))
        return changes

    def commit(self, offset: int) -> None:
        """Everything below `offset` is committed: publishes and replies, in order."""
        while self._pending and self._pending[0].end_offset <= offset:
            decision = self._pending.popleft()
            if decision.changes is not None:
                self.committed = decision.changes.image
                self._publish(decision.changes)
            if decision.done is not None:
                decision.done()

    def publish(self, changes: Changes) -> None:
        """Publishes a snapshot that was installed while the broker runs."""
        self._publish(changes)

    def drop_pending(self) -> None:
        """This node no longer leads: its pending decisions may or may not be committed."""
        dropped, self._pending = self._pending, deque()
        self.newest = self.committed
        self.replayed_offset = self.committed.offset + 1
        for decision in dropped:
            if decision.failed is not None:
                decision.failed(ErrorCode.NOT_CONTROLLER)

    def load_snapshot(self, batches: Iterable[StoredBatch], offset: int, epoch: int) -> Changes:
        """Replaces everything by a snapshot; the changes are not published here."""
        previous = self.committed
        delta = MetadataDelta(MetadataImage(cluster_id=previous.cluster_id))
        for batch in batches:
            self.replay_records(delta, batch.records)
        changes = _difference(previous, self.apply(delta, offset - 1, epoch))
        self._pending.clear()
        self.committed = self.newest = changes.image
        self.replayed_offset = offset
        return changes


def _difference(previous: MetadataImage, whole: Changes) -> Changes:
    """All of an image as changes, including what it no longer contains."""
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
