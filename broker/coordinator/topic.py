"""A coordinator's topic: its name, the codec of its records, and its errors for clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from bus.errors import ErrorCode

RecordT = TypeVar("RecordT")


@dataclass(frozen=True, slots=True)
class CoordinatorTopic(Generic[RecordT]):
    """What the runtime and the partition writer need to know of one kind of coordinator.

    `decode` returns None for a record of an unknown kind (a later Kafka's). `client_errors` maps
    errors of an append to those that the coordinator's clients understand; others stay.
    `loss` completes the log line about damaged records: what is lost with them.
    """

    name: str
    encode: Callable[[RecordT], tuple[bytes, bytes | None]]
    decode: Callable[[bytes, bytes | None], RecordT | None]
    client_errors: Mapping[ErrorCode, ErrorCode]
    loss: str

    def client_error(self, error: ErrorCode) -> ErrorCode:
        """The error that a client gets for a failed append."""
        return self.client_errors.get(error, error)
