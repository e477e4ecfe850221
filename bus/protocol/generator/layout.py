"""The layout of a message in one version: what is left once all version ranges are resolved.

Two versions with an equal layout share one function, and so do structs.
In: `SchemaMessage`. Out: `Layout`, hashable. Never: Python source.
"""

from __future__ import annotations

from dataclasses import dataclass

from bus.protocol.generator.model import SchemaField, SchemaMessage


@dataclass(frozen=True, slots=True)
class FieldSlot:
    """A field as it is in one version."""

    field: SchemaField
    nullable: bool
    struct: Layout | None

    @property
    def name(self) -> str:
        """The field's name."""
        return self.field.name


@dataclass(frozen=True, slots=True)
class Layout:
    """A struct or a message in one version: its plain slots in sequence, its tagged ones by tag."""

    name: str
    flexible: bool
    slots: tuple[FieldSlot, ...]
    tagged: tuple[FieldSlot, ...]

    @property
    def present(self) -> dict[str, FieldSlot]:
        """All slots by name."""
        return {slot.name: slot for slot in (*self.slots, *self.tagged)}


def layout_of(message: SchemaMessage, version: int) -> Layout:
    """The layout of a message in one of its versions."""
    flexible = message.flexible_from is not None and version >= message.flexible_from
    return _layout(message.name, message.fields, message, version, flexible)


def _layout(
    name: str, fields: tuple[SchemaField, ...], message: SchemaMessage, version: int, flexible: bool
) -> Layout:
    slots: list[FieldSlot] = []
    tagged: list[FieldSlot] = []
    for field in fields:
        if version not in field.versions:
            continue
        struct = (
            _layout(field.type, message.structs[field.type], message, version, flexible)
            if field.is_struct
            else None
        )
        nullable = field.nullable is not None and version in field.nullable
        (slots if field.tag is None else tagged).append(FieldSlot(field, nullable, struct))
    tagged.sort(key=lambda slot: slot.field.tag or 0)
    return Layout(name, flexible, tuple(slots), tuple(tagged))
