"""Lists of plates and galleries of faces (名单): what people ask for, and what was decided of it.

A request stands on `control.lists`, its decision on `state.lists`. There a list is one record under
its id, `LIST`, which names chunks of lines: `LIST/BASE/N` of its base, written by whoever imports
it, and `LIST/BASE/+VERSION` of a change, written by the decider. What no record names is in force
nowhere. Chunks are read by `bus.domain.list_chunks`.
In/out: frozen structs. Never: a line in the record of a list; a base id that is used twice.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from bus.contracts.commands import Command, MatchedKind
from bus.contracts.feature_models import FeatureModel
from bus.contracts.topics import CONTROL_LISTS

Tolerance = Literal["exact", "look-alikes", "distance 1"]
TOLERANCES: tuple[Tolerance, ...] = ("exact", "look-alikes", "distance 1")
PLATE_LIST_KIND: MatchedKind = "vehicle"
GALLERY_KIND: MatchedKind = "face"
"""Whose records a list of plates means, and whose a gallery."""
LIST_RULE = "list/"
"""Before the id of a list: the id of the rule that it is itself."""
Severity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")


class ListLine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A plate on a list. `number`: the line of the file that brought it, from 1; 0: none has.
    `plate` is in its one spelling (`bus.domain.plates.plate_key`); `date`: since when, YYYY-MM-DD,
    or empty."""

    number: int
    plate: str
    note: str = ""
    date: str = ""

    @property
    def key(self) -> str:
        """What a list has once."""
        return self.plate


class FaceLine(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A face in a gallery. `number`, `note`, `date`: as of a plate. `entry`: by which people know
    it, once in a gallery; `feature`: little-endian 32-bit floats of the gallery's model."""

    number: int
    entry: str
    note: str = ""
    date: str = ""
    feature: bytes = b""

    @property
    def key(self) -> str:
        """What a gallery has once."""
        return self.entry


class ListChunk(msgspec.Struct, frozen=True, array_like=True):
    """The value of a chunk before it is compressed: lines of a base or, of a change, those that
    were put and the plates that went. Of a plate that is in both, the line counts."""

    lines: list[ListLine]
    removed: list[str] = []


class FaceChunk(msgspec.Struct, frozen=True, array_like=True):
    """The same of a gallery; `removed`: entries."""

    lines: list[FaceLine]
    removed: list[str] = []


class NamedChunk(msgspec.Struct, frozen=True, array_like=True):
    """A chunk as a record names it. `number`: that in its key; of a change the version that it
    made. `sha256`: of the value, as hexadecimal digits; `lines`: put and removed."""

    number: int
    lines: int
    sha256: str


class _ListText(Command, frozen=True, kw_only=True, omit_defaults=True):
    """What a person says of a list, and which lines are its base."""

    TOPIC: ClassVar[str] = CONTROL_LISTS

    list_id: str
    version: int = 0
    kind: MatchedKind = PLATE_LIST_KIND  # whose records it means; those of faces: a gallery
    model: FeatureModel | None = None  # of a gallery: of all its features
    name: str = ""
    owner: str = ""  # who answers for it
    source: str = ""  # where its lines come from
    legal_ground: str = ""
    date: str = ""  # of its lines, YYYY-MM-DD
    severity: Severity = "warning"
    tolerance: Tolerance = "exact"
    alarms: bool = True  # it is a rule itself, `list/ID`; no: rules refer to it only
    renewal_days: int = 0  # it is overdue when it was not imported again within them; 0: never
    base: str = ""
    chunks: tuple[NamedChunk, ...] = ()  # of the base, numbered from 0
    author: str = ""

    @property
    def asked_by(self) -> str:
        """In whose name it is asked."""
        return self.account or self.author or self.issuer

    @property
    def base_lines(self) -> int:
        """Of its base, without its changes."""
        return sum(chunk.lines for chunk in self.chunks)

    @property
    def is_gallery(self) -> bool:
        """Whether it is one of faces, and not a list of plates."""
        return self.kind == GALLERY_KIND

    @property
    def key(self) -> str:
        """See `Command.key`."""
        return self.list_id


class ListCommand(_ListText, frozen=True, kw_only=True, omit_defaults=True):
    """`control.lists`: put a list (`put`: its text, and a base whose chunks stand on `state.lists`
    already), change some of its lines (`change`), or end it (`remove`).

    `removed_lines`: how many of the lines in force the new base lacks; where these are more than a
    fifth, `confirms_removal` has to say that this is meant. A base names the version in force that
    its sender saw, since it was compared with that. `approve`, `reject` and `withdraw` settle what
    is proposed under the list's id; an approval names the SHA-256 of what it approves
    (`bus.domain.list_text`).
    """

    op: Literal["put", "change", "remove", "approve", "reject", "withdraw"]
    put_lines: tuple[ListLine, ...] = ()
    removed_plates: tuple[str, ...] = ()  # of a gallery: entries
    put_faces: tuple[FaceLine, ...] = ()
    removed_lines: int = 0
    confirms_removal: bool = False
    text_sha256: str = ""


class ListRecord(_ListText, frozen=True, kw_only=True, omit_defaults=True):
    """`state.lists`: a list in force, or its end, as it was decided. A larger `version` is newer;
    `floor` is no list: no record up to its version is accepted any more.

    In force are the lines of `chunks`, then each of `changes`, in their order. `proposal`: the
    version of what waited until this was decided; of an approved one also by whom and why.
    """

    op: Literal["put", "remove", "floor"]
    changes: tuple[NamedChunk, ...] = ()
    renewed_at_ms: int = 0  # when its base was put
    decided_at_ms: int = 0
    proposal: int = 0
    approved_by: str = ""
    approval_reason: str = ""

    @property
    def decided_by(self) -> str:
        """Whom a person would ask about it."""
        return self.asked_by

    @property
    def changed_lines(self) -> int:
        """That were put or removed since its base."""
        return sum(chunk.lines for chunk in self.changes)


def base_key(list_id: str, base: str, number: int) -> str:
    """The key of a chunk of a base."""
    return f"{list_id}/{base}/{number}"


def change_key(list_id: str, base: str, version: int) -> str:
    """The key of the chunk of a change."""
    return f"{list_id}/{base}/+{version}"


def is_chunk_key(key: str) -> bool:
    """Whether a key is one of lines, and not of a list: no list's id has a stroke."""
    return "/" in key


def named_keys(record: ListRecord) -> dict[str, NamedChunk]:
    """Key -> chunk of all that a record names, in the order in which they are applied."""
    if record.op != "put":
        return {}
    found = {base_key(record.list_id, record.base, one.number): one for one in record.chunks}
    return found | {
        change_key(record.list_id, record.base, one.number): one for one in record.changes
    }
