"""The controller's shell: decide, record, replay, publish.

Core: `decisions` (pure) and `MetadataDelta`. Every change of the cluster goes through `write`;
the answer is given when the records are committed, which with one voter is before `write`
returns and with several will be later, so callers take it by callback.
Never: rules about topics, brokers or configurations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from broker.controller.decisions import cluster
from broker.controller.decisions.decision import Decide
from broker.controller.kraft.metadata_log import MetadataLog, VoterIdentity
from broker.metadata.delta import Changes, MetadataDelta
from broker.metadata.image import MetadataImage
from broker.metadata.versions import MAX_LEVEL
from bus.errors import ErrorCode

Reply = TypeVar("Reply")
Publish = Callable[[Changes], None]


class SingleVoterController:
    """`broker.controller.port.Controller` of a cluster whose only voter is this node.

    Invariant: `image` is what replaying the log from its start gives.
    """

    def __init__(self, store: MetadataLog, cluster_id: str, publish: Publish) -> None:
        self._store = store
        self._publish = publish
        self.image = MetadataImage(cluster_id=cluster_id)
        self.voter = VoterIdentity(-1, bytes(16), "", 0)

    def load(self) -> Changes:
        """Replay the log: the image as this broker left it, all of it as changes."""
        delta = MetadataDelta(self.image)
        last_offset, epoch = -1, 0
        for batch in self._store.read_all():
            for record in batch.records:
                delta.replay(record)
            last_offset, epoch = batch.last_offset, batch.epoch
        changes = delta.apply(last_offset, epoch)
        self.image = changes.image
        return changes

    def lead(self, voter: VoterIdentity) -> None:
        """Lead under a new epoch, and give an empty cluster its first records."""
        self.voter = voter
        self._store.become_leader(voter)
        self.write(cluster.bootstrap, lambda _: None)

    @property
    def committed(self) -> MetadataImage:
        """The same as `image`: what one voter has stored is committed."""
        return self.image

    @property
    def is_active(self) -> bool:
        """Always: nobody else could be."""
        return True

    @property
    def leader_id(self) -> int:
        """This node."""
        return self.voter.node_id

    @property
    def epoch(self) -> int:
        """The epoch in which this controller leads."""
        return self._store.epoch

    @property
    def end_offset(self) -> int:
        """The offset the next record gets."""
        return self._store.end_offset

    @property
    def log_bytes(self) -> int:
        """What the metadata log occupies on disk."""
        return self._store.size_bytes

    def write(
        self,
        decide: Decide[Reply],
        done: Callable[[Reply], None],
        failed: Callable[[ErrorCode], None] | None = None,
    ) -> None:
        """Decide on the newest image, store the records, replay them, publish, answer."""
        decision = decide(self.image)
        if decision.records:
            last_offset = self._store.append(
                decision.records, self.image.metadata_version or MAX_LEVEL
            )
            delta = MetadataDelta(self.image)
            for record in decision.records:
                delta.replay(record)
            changes = delta.apply(last_offset, self._store.epoch)
            self.image = changes.image
            self._publish(changes)
        done(decision.reply)

    def stop(self) -> None:
        """Close the log."""
        self._store.close()
