"""What has been answered so far. Pure.

In: records of `event.command`. Out: the answer of each command id. Never: more than a bounded
number of them.
"""

from __future__ import annotations

import hashlib

import msgspec

from bus.client.model import ConsumedRecord
from bus.contracts.commands import CommandAnswer

MAX_ANSWERS = 50_000
"""A thousand commands a day and more within the month that answers are kept. Beyond it the oldest
are forgotten, and a command that is sent again under such an id is decided again."""

_decode = msgspec.json.Decoder(CommandAnswer).decode


class AnsweredCommands:
    """Invariant: the newest `limit` answers, the oldest first."""

    def __init__(self, limit: int = MAX_ANSWERS) -> None:
        self._limit = limit
        self._answers: dict[bytes, bytes] = {}

    def get(self, command_id: str) -> CommandAnswer | None:
        """The answer that was given."""
        found = self._answers.get(_digest(command_id))
        return None if found is None else _decode(found)

    def apply(self, record: ConsumedRecord) -> None:
        """The next one of `event.command`; what is not ours changes nothing."""
        try:
            answer = _decode(record.value or b"")
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return
        self._answers.setdefault(_digest(answer.command_id), record.value or b"")
        while len(self._answers) > self._limit:
            del self._answers[next(iter(self._answers))]


def _digest(command_id: str) -> bytes:
    return hashlib.blake2b(command_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
