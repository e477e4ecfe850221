"""What the rest of a broker knows of the controller, whichever kind stores its records.

In: decisions. Out: the newest image, who is active, answers after commit.
Never: how records are stored or voted on; `kraft.node.RaftNode` and
`zk.controller.ZooKeeperController` do that behind this one Protocol.
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
        """The newest image: what is decided on while active, else what is committed."""

    @property
    def committed(self) -> MetadataImage:
        """The newest image that cannot be taken back."""

    @property
    def is_active(self) -> bool:
        """Whether this node may decide now."""

    @property
    def epoch(self) -> int:
        """The controller epoch: Raft's leader epoch, or that of `/controller_epoch`."""

    @property
    def leader_id(self) -> int:
        """The active controller as far as this node knows, NO_LEADER if it knows none."""

    @property
    def end_offset(self) -> int:
        """The offset the next record gets; broker epochs are made of it."""

    def write(
        self, decide: Decide[Reply], done: Done[Reply], failed: Failed | None = None
    ) -> None:
        """Decide on the newest image, store the records, answer after their commit.

        `done` or `failed` is called exactly once, mostly after this has returned. `failed`
        hears NOT_CONTROLLER where this node is not active or ceased to be before the commit; the
        records may or may not stand then, so callers ask again. A decision without records is
        answered once everything it was decided on is committed.
        """
