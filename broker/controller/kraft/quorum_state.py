"""The `quorum-state` file beside the metadata log: epoch, leader and vote of this voter.

In: text. Out: the state, or text. Never: files (the metadata log writes it durably).
Format: version 1 of Kafka's QuorumStateData (KIP-853), which Kafka's own tools read.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

FILE_NAME = "quorum-state"
DATA_VERSION = 1


class QuorumStateError(Exception):
    """The file is not a quorum-state of a version we know."""


@dataclass(frozen=True, slots=True)
class QuorumState:
    """What must survive a restart so that no epoch has two leaders."""

    leader_id: int = -1
    leader_epoch: int = 0
    voted_id: int = -1
    voted_directory_id: bytes = bytes(16)


def uuid_text(value: bytes) -> str:
    """Kafka's text of a UUID: base64 for URLs without padding."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes:
    """The UUID in Kafka's text."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(state: QuorumState) -> str:
    """The file's text."""
    return json.dumps(
        {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": uuid_text(state.voted_directory_id),
            "data_version": DATA_VERSION,
        },
        separators=(",", ":"),
    )


def decode(text: str) -> QuorumState:
    """Read the file. Raises `QuorumStateError`; nothing is ever overwritten then."""
    try:
        fields = json.loads(text)
        if fields["data_version"] != DATA_VERSION:
            raise QuorumStateError(f"quorum-state has data_version {fields['data_version']}")
        return QuorumState(
            leader_id=int(fields["leaderId"]),
            leader_epoch=int(fields["leaderEpoch"]),
            voted_id=int(fields["votedId"]),
            voted_directory_id=uuid_bytes(fields["votedDirectoryId"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise QuorumStateError(f"quorum-state cannot be read: {error!r}") from error
