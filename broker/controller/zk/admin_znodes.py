"""Nodes in which tools and brokers leave a request for the controller.

Pure. Values to bytes and back; malformed content raises `ZnodeError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from broker.controller.zk import znodes


def decode_reassignment(data: bytes) -> dict[tuple[str, int], tuple[int, ...]]:
    """`/admin/reassign_partitions`: wanted replicas by partition."""
    value = znodes.load(znodes.REASSIGN, data)
    try:
        return {
            (str(one["topic"]), int(one["partition"])): tuple(int(r) for r in one["replicas"])
            for one in value.get("partitions", ())
        }
    except (KeyError, TypeError, ValueError) as error:
        raise znodes.malformed(znodes.REASSIGN, data, error) from error


def encode_reassignment(wanted: Mapping[tuple[str, int], Sequence[int]]) -> bytes:
    """What is still to be done of it."""
    return znodes.dump({
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": index, "replicas": list(replicas)}
            for (topic, index), replicas in wanted.items()
        ],
    })  # fmt: skip


def decode_preferred_election(data: bytes) -> list[tuple[str, int]]:
    """`/admin/preferred_replica_election`: partitions; numbers may be texts (E-33)."""
    value = znodes.load(znodes.PREFERRED_ELECTION, data)
    try:
        return [(str(one["topic"]), int(one["partition"])) for one in value.get("partitions", ())]
    except (KeyError, TypeError, ValueError) as error:
        raise znodes.malformed(znodes.PREFERRED_ELECTION, data, error) from error


def encode_failed_directory(broker_id: int) -> bytes:
    """A child of `/log_dir_event_notification`; its only event is a directory's failure."""
    return znodes.dump({"version": 1, "broker": broker_id, "event": 1})


def decode_failed_directory(path: str, data: bytes) -> int:
    """Whose directory has failed."""
    try:
        return int(znodes.load(path, data)["broker"])
    except (KeyError, TypeError, ValueError) as error:
        raise znodes.malformed(path, data, error) from error
