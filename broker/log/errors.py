"""The one error of this room."""

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
    """What is to be appended is not one whole batch: the request is wrong, whatever the log."""


def storage_error(error: DiskError) -> LogError:
    """The disk refused: Kafka's code for it, the system's words as detail, its error as cause."""
    made = LogError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
    made.__cause__ = error
    return made


_OF_DEVICES = frozenset({errno.EIO, errno.EROFS, errno.ENODEV, errno.ENXIO, errno.EUCLEAN})


def is_of_the_device(error: DiskError) -> bool:
    """Whether it says that the whole directory is lost, and not that a file is in the way of one
    partition."""
    return error.errno in _OF_DEVICES


def found_no_room(error: LogError) -> bool:
    """Whether the disk was full: what had been written before is all there."""
    return isinstance(error.__cause__, DiskFull)


def is_damage(error: LogError) -> bool:
    """Whether what was read is no log: it stays so, where a disk that refuses may recover."""
    return error.code is ErrorCode.KAFKA_STORAGE_ERROR and error.__cause__ is None
