"""The result of every decision, shared by the KRaft and the ZooKeeper controller.

A decision changes nothing: its records, once stored, are replayed into the next image.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from broker.metadata.image import MetadataImage
from bus.errors import ErrorCode

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class Decision(Generic[Reply]):
    """Records to store as one batch, and the reply once they are stored."""

    records: tuple[object, ...]
    reply: Reply


Charge = Callable[[int], None]
"""Called with the partitions that an item of a request makes or removes, once it is known to be
valid. Raises RefusedError where its client may not change so much now."""


def free_of_charge(partitions: int) -> None:
    """There is no quota."""


Decide = Callable[[MetadataImage], Decision[Reply]]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why one part of a request was refused."""

    error: ErrorCode
    message: str | None = None


class RefusedError(Exception):
    """Carries a `Refusal` out of the checks of one item; never leaves its decision."""

    def __init__(self, error: ErrorCode, message: str | None) -> None:
        super().__init__(message or error.text)
        self.refusal = Refusal(error, message)
