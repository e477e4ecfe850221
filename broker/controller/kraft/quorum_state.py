"""The `quorum-state` file beside the metadata log: epoch, leader and vote of this voter.

In: text. Out: the state, or text. Never: files (the metadata log writes it durably).
Format: Kafka's QuorumStateData, which its own tools read: version 1 (KIP-853) where the voters
stand in the log, version 0 where they stand in the configuration (no directory id, but the voters).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FILE_NAME = "quorum-state"
DATA_VERSION = 1
STATIC_VERSION = 0


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


def encode(state: QuorumState, static_voters: Sequence[int] | None = None) -> str:
    """The file's text; version 0 where `static_voters` are given."""
    fields: dict[str, Any]
    if static_voters is None:
        fields = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": uuid_text(state.voted_directory_id),
            "data_version": DATA_VERSION,
        }
    else:
        fields = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in static_voters],
            "data_version": STATIC_VERSION,
        }
    return json.dumps(fields, separators=(",", ":"))


def decode(text: str) -> QuorumState:
    """Read the file. Raises `QuorumStateError`; nothing is ever overwritten then."""
    try:
        fields = json.loads(text)
        if fields["data_version"] not in (STATIC_VERSION, DATA_VERSION):
            raise QuorumStateError(
                f"quorum-state has data_version {fields['data_version']}, which only a newer "
                "release reads; start that one, nothing was changed"
            )
        directory = bytes(16)
        if fields["data_version"] == DATA_VERSION:
            directory = uuid_bytes(fields["votedDirectoryId"])
        epoch = int(fields["leaderEpoch"])
        if not 0 <= epoch < 1 << 31:
            raise ValueError(f"leaderEpoch {epoch}")
        return QuorumState(
            leader_id=int(fields["leaderId"]),
            leader_epoch=epoch,
            voted_id=int(fields["votedId"]),
            voted_directory_id=directory,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise QuorumStateError(
            f"quorum-state cannot be read ({error!r}); restore it from a backup, or, if other "
            "voters have the metadata, move the whole metadata directory away; nothing was changed"
        ) from error
