"""The controller as the rest of a broker sees it, regardless of where its records are stored.

In: decisions. Out: the newest image, the active controller, replies after the commit. Never: how
records are stored or voted on; `kraft.node.RaftNode` and `zk.controller.ZooKeeperController` do
that behind this one Protocol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from broker.controller.decisions.decision import Decide
from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode

Reply = TypeVar("Reply")

Done = Callable[[Reply], None]
Failed = Callable[[ErrorCode], None]

NO_LEADER = -1


class Controller(Protocol):
    """The controller as one node sees it; active on one node of the cluster at a time."""

    @property
    def image(self) -> MetadataImage:
        """The newest image: what is decided on while active, else the committed one."""

    @property
    def committed(self) -> MetadataImage:
        """The newest committed image."""

    @property
    def is_active(self) -> bool:
        """Whether this node is the active controller."""

    @property
    def epoch(self) -> int:
        """The controller epoch: Raft's leader epoch, or that of `/controller_epoch`."""

    @property
    def leader_id(self) -> int:
        """The active controller as far as this node knows, NO_LEADER if unknown."""

    @property
    def end_offset(self) -> int:
        """The offset of the next record; broker epochs are derived from it."""

    def write(
        self, decide: Decide[Reply], done: Done[Reply], failed: Failed | None = None
    ) -> None:
        """Decides on the newest image, stores the records, replies after their commit.

        Exactly one of `done` and `failed` is called, mostly after this has returned. `failed` gets
        NOT_CONTROLLER where this node is not active or ceased to be before the commit; the records
        may or may not be committed then, so callers retry. A decision without records is answered
        once everything it was decided on is committed.
        """
