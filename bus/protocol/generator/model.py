"""What a schema table says, as frozen values.

In: nothing. Out: `SchemaMessage`, `SchemaField`, `Versions`.
Never: text (that is `parse`) or Python source (that is `types`, `decode`, `encode`).
"""

from __future__ import annotations

from dataclasses import dataclass

SCALARS: dict[str, tuple[str, int]] = {
    "int8": ("b", 1),
    "int16": ("h", 2),
    "int32": ("i", 4),
    "int64": ("q", 8),
    "uint16": ("H", 2),
    "uint32": ("I", 4),
    "float64": ("d", 8),
    "bool": ("?", 1),
    "uuid": ("16s", 16),
}
"""Types of a fixed size: their code for `struct` and their bytes."""

LENGTHS = {"string": "h", "legacy_string": "h", "bytes": "i", "records": "i"}
"""Types with a length in front: its code for `struct` where the version is not flexible.

legacy_string keeps that length in flexible versions too (only client_id in the request header).
"""


@dataclass(frozen=True, slots=True)
class Versions:
    """A range of versions, both ends inclusive."""

    first: int
    last: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last

    def __iter__(self) -> object:
        return iter(range(self.first, self.last + 1))


@dataclass(frozen=True, slots=True)
class SchemaField:
    """One field. `type` is a scalar, a type with a length, or a struct's name (capital letter)."""

    name: str
    type: str
    is_array: bool
    versions: Versions
    nullable: Versions | None
    tag: int | None
    default: str | None

    @property
    def is_struct(self) -> bool:
        """Whether the type is one of the message's structs."""
        return self.type[0].isupper()


@dataclass(frozen=True, slots=True)
class SchemaMessage:
    """One message: `kind` is request, response, record, key, value, data or header."""

    kind: str
    key: int | None
    name: str
    versions: Versions
    flexible_from: int | None
    fields: tuple[SchemaField, ...]
    structs: dict[str, tuple[SchemaField, ...]]


FIRST_PRIVATE_KEY = 10_000
"""Keys from here on are ours and in no table of Kafka, whose own stay below 100."""


@dataclass(frozen=True, slots=True)
class Api:
    """A pair of messages with its number and where it is served."""

    key: int
    name: str
    versions: Versions
    flexible_from: int | None
    listeners: tuple[str, ...]
    unstable_from: int | None
    request: SchemaMessage
    response: SchemaMessage

    @property
    def is_private(self) -> bool:
        """Whether it is ours and not Kafka's."""
        return self.key >= FIRST_PRIVATE_KEY
