"""The `quorum-state` file beside the metadata log: epoch, leader and vote of this voter.

The format is Kafka's QuorumStateData, which its own tools read: version 1 (KIP-853) where the
voters are in the log, version 0 where they are in the configuration (no directory id, but the
voters). It has no checksum: a flipped bit in the epoch or in the vote would let this voter vote
twice in an epoch, which then has two leaders. So a copy with a checksum (`checked`) lies beside it.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from broker.disk.port import Disk
from broker.log.checked import SUFFIX, read_copy, write_copy

log = logging.getLogger("broker.controller")

FILE_NAME = "quorum-state"
DATA_VERSION = 1
STATIC_VERSION = 0


class QuorumStateError(Exception):
    """The file is not a quorum-state of a known version."""


@dataclass(frozen=True, slots=True)
class QuorumStateData:
    """The state that must survive a restart so that no epoch has two leaders."""

    leader_id: int = -1
    leader_epoch: int = 0
    voted_id: int = -1
    voted_directory_id: bytes = bytes(16)


def uuid_text(value: bytes) -> str:
    """Kafka's text of a UUID: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def uuid_bytes(text: str) -> bytes:
    """The UUID in Kafka's text."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def encode(state: QuorumStateData, static_voters: Sequence[int] | None = None) -> str:
    """The file's text; version 0 if `static_voters` are given."""
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


def decode(text: str) -> QuorumStateData:
    """Parses the file. Raises `QuorumStateError`; the file is never overwritten then."""
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
        return QuorumStateData(
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


def write_state(disk: Disk, path: str, text: str) -> None:
    """Replaces copy and file. Only the file is flushed: an election takes as long as its
    flushes."""
    write_copy(disk, path, text + "\n")
    disk.replace_text_durably(path, text)


def read_state(disk: Disk, path: str) -> QuorumStateData | None:
    """The state that was written last; None if there is none. Raises QuorumStateError.

    The file may be newer than a valid copy (after a power loss, or if Apache Kafka has run since)
    or older (a crash between the two writes): the higher epoch counts, because a vote in it was
    never given under the other one. Within an epoch a vote is given once: the copy has it.
    """
    copied = read_copy(disk, path)
    copy = decode(copied) if copied is not None else None
    if not disk.exists(path):
        if copy is not None:
            log.warning("%s is missing; its copy counts", path)
        return copy
    try:
        here = decode(disk.read_text(path))
    except QuorumStateError as error:
        if copy is None:
            raise
        raise QuorumStateError(
            f"{error}; or, unless Apache Kafka has run on this directory since, delete "
            f"{path}: its copy {path.rpartition('/')[2]}{SUFFIX} counts then"
        ) from error
    if copy is None or here == copy:
        return here
    log.warning("%s and its copy differ; the higher epoch and its vote count", path)
    if here.leader_epoch != copy.leader_epoch:
        return max(here, copy, key=lambda state: state.leader_epoch)
    if copy.voted_id >= 0:
        return copy
    return replace(copy, voted_id=here.voted_id, voted_directory_id=here.voted_directory_id)
