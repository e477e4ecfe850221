"""The one error of this package: ``LogError``, and what a disk's error means for a log."""

from __future__ import annotations

import errno

from broker.disk.port import DiskError, DiskFull
from bus.errors import BusError, ErrorCode


class LogError(BusError):
    """What a log refuses, with the protocol's code; ``detail`` is for the log and the operator.

    ``record_errors`` names the records that are to blame (index in the batch, sentence), and
    ``answer`` is the sentence that Kafka would send, for the produce answer of versions that carry
    them. Most refusals have neither: Kafka sends the code alone.
    """

    def __init__(
        self,
        code: ErrorCode,
        detail: str = "",
        record_errors: tuple[tuple[int, str], ...] = (),
        answer: str | None = None,
    ) -> None:
        super().__init__(code, detail)
        self.record_errors = record_errors
        self.answer = answer


class NotOneBatch(LogError):
    """The bytes to append are not one whole batch: the request is wrong, not the log."""


def storage_error(error: DiskError) -> LogError:
    """Kafka's code for a disk error, with the system's words as detail and the error as cause."""
    made = LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    made.__cause__ = error
    return made


def read_only(topic: str, source: str) -> LogError:
    """The answer to a producer that writes into a topic which takes no records here: one after
    which clients keep the record and try again, without asking for metadata each time (ADR 0058).
    `source`: the cluster it is mirrored from; empty: nobody has confirmed that this site is the
    primary still (ADR 0065)."""
    text = f"{topic} is mirrored from cluster {source} and read-only here"
    if not source:
        text = (
            f"{topic} takes no records: this site was down as a whole, or another one has taken "
            "over; it waits until its site epoch is confirmed (databus mirror primary)"
        )
    return LogError(ErrorCode.NOT_ENOUGH_REPLICAS, text, answer=text)


_OF_DEVICES = frozenset({errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.EUCLEAN})


def is_device_failure(error: DiskError) -> bool:
    """Whether the whole directory is lost, as opposed to a problem with one partition's files."""
    return error.errno in _OF_DEVICES


def is_disk_full(error: LogError) -> bool:
    """Whether the disk was full: everything written before is still there."""
    return isinstance(error.__cause__, DiskFull)


def is_corruption(error: LogError) -> bool:
    """Whether the bytes read are no log. That is permanent, unlike an error of the disk."""
    return error.code is ErrorCode.KAFKA_STORAGE_ERROR and error.__cause__ is None
