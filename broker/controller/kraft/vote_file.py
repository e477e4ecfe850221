"""The `quorum-state` file on the disk, and its copy with a checksum (`checked`).

In: a path, a state. Out: the state that forgets no vote, or QuorumStateError. Never: a change of
what is there but by `write_durably`. The file's format, Kafka's, has no checksum: a flipped bit in
the epoch or in the vote would let this voter vote twice in an epoch, which then has two leaders.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from broker.controller.kraft.quorum_state import QuorumState, QuorumStateError, decode
from broker.disk.port import Disk
from broker.log.checked import SUFFIX, read_copy, write_copy

log = logging.getLogger("broker.controller")


def write_durably(disk: Disk, path: str, text: str) -> None:
    """Replace copy and file. Only the file is waited for: an election is as long as its flushes."""
    write_copy(disk, path, text + "\n")
    disk.replace_text_durably(path, text)


def read_state(disk: Disk, path: str) -> QuorumState | None:
    """The state that was written last; None if none was. Raises QuorumStateError.

    The file may be newer than a sound copy (after a loss of power, or if Apache Kafka has run
    since) or older (a crash between the two): the higher epoch counts, for a vote in it was never
    given under the other one. Within an epoch a vote is given once: the copy says which.
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
