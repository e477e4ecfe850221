"""Source of the encoding functions: one per layout; they hand chunks to `write`.

In: `Layout`. Out: lines of Python: `def NAME(msg, write): ...`.
Record bytes are handed on as they are; everything else is small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bus.protocol.generator.decode import identifier
from bus.protocol.generator.layout import FieldSlot, Layout
from bus.protocol.generator.model import LENGTHS, SCALARS, SchemaField
from bus.protocol.generator.types import default, is_absent_by_default

Names = Callable[[Layout], str]
MAY_BE_ENCODED = frozenset({("MetadataResponse", "topics")})
"""Arrays whose items may be handed over encoded, as `bytes`: a broker tells every client the same
topics, of thousands of partitions, and they seldom change."""

_NULL = {"": 'b"\\x00"', "h": 'b"\\xff\\xff"', "i": 'b"\\xff\\xff\\xff\\xff"'}


class Encoder:
    """Writes the encoder of one layout. `formats` collects the struct formats it needs."""

    def __init__(self, layout: Layout, names: Names) -> None:
        self._layout = layout
        self._names = names
        self.formats: set[str] = set()

    def function(self, name: str) -> Iterator[str]:
        """The function under its name."""
        yield f"def {name}(msg, write):"
        body = list(self._body())
        yield from _indent(body or ["pass"])

    def _body(self) -> Iterator[str]:
        run: list[str] = []
        codes: list[str] = []
        for slot in self._layout.slots:
            if _is_fixed(slot.field):
                run.append("msg." + slot.name)
                codes.append(SCALARS[slot.field.type][0])
            else:
                yield from self._run(codes, run)
                run, codes = [], []
                yield from self._slot(slot, "write")
        yield from self._run(codes, run)
        if self._layout.flexible:
            yield from self._tags()

    def _run(self, codes: list[str], values: list[str]) -> Iterator[str]:
        if codes:
            yield f"write({self._pack(codes)}({', '.join(values)}))"

    def _pack(self, codes: list[str]) -> str:
        fmt = "".join(codes)
        self.formats.add(fmt)
        return "_p_" + identifier(fmt)

    def _length_code(self, field: SchemaField) -> str:
        if field.type == "legacy_string":
            return "h"
        if self._layout.flexible:
            return ""
        return "i" if field.is_array else LENGTHS.get(field.type, "")

    def _length(self, code: str, expression: str) -> str:
        """The chunk with a length; flexible versions write it plus one, as a varint."""
        if code:
            return f"{self._pack([code])}({expression})"
        return f"BYTE[{expression} + 1] if {expression} < 127 else uvarint({expression} + 1)"

    def _slot(self, slot: FieldSlot, write: str) -> Iterator[str]:
        value = f"msg.{slot.name}"
        code = self._length_code(slot.field)
        if slot.struct is not None and not slot.field.is_array:
            yield from self._struct(slot, slot.struct, value, write)
            return
        yield f"item = {value}" if not slot.field.is_array else f"items = {value}"
        lines = (
            self._array(slot, code, write)
            if slot.field.is_array
            else self._value(slot.field, code, write)
        )
        if not slot.nullable:
            yield from lines
            return
        yield "if item is None:" if not slot.field.is_array else "if items is None:"
        yield f"    {write}({_NULL[code]})"
        yield "else:"
        yield from _indent(lines)

    def _value(self, field: SchemaField, code: str, write: str) -> Iterator[str]:
        """A string, bytes or records that is in `item` and not null."""
        if field.type == "records":
            yield "chunks = item if isinstance(item, list) else (item,)"
            yield "n = sum(map(len, chunks))"
            yield f"{write}({self._length(code, 'n')})"
            yield "for chunk in chunks:"
            yield f"    {write}(chunk)"
            return
        if field.type != "bytes":
            yield "item = item.encode()"
        if code:
            yield f"{write}({self._length(code, 'len(item)')} + item)"
        else:
            yield "n = len(item)"
            yield f"{write}(({self._length(code, 'n')}) + item)"

    def _struct(self, slot: FieldSlot, struct: Layout, value: str, write: str) -> Iterator[str]:
        put = self._names(struct)
        if not slot.nullable:
            yield f"{put}({value}, {write})"
            return
        yield f"if {value} is None:"
        yield f'    {write}(b"\\xff")'
        yield "else:"
        yield f'    {write}(b"\\x01")'
        yield f"    {put}({value}, {write})"

    def _array(self, slot: FieldSlot, code: str, write: str) -> Iterator[str]:
        kind = slot.field.type
        yield "n = len(items)"
        yield f"{write}({self._length(code, 'n')})"
        if kind in SCALARS and kind != "uuid":
            yield f'{write}(pack(f">{{n}}{SCALARS[kind][0]}", *items))'
            return
        yield "for item in items:"
        if slot.struct is not None:
            put = f"{self._names(slot.struct)}(item, {write})"
            if (self._layout.name, slot.name) in MAY_BE_ENCODED:
                put = f"{write}(item) if item.__class__ is bytes else {put}"
            yield f"    {put}"
        elif kind == "uuid":
            yield f"    {write}(item)"
        else:
            yield from _indent(self._value(slot.field, self._item_code(kind), write))

    def _item_code(self, kind: str) -> str:
        return "" if self._layout.flexible else LENGTHS[kind]

    def _tags(self) -> Iterator[str]:
        tagged = self._layout.tagged
        if not tagged:
            yield 'write(b"\\x00")'
            return
        yield "tags = []"
        for slot in tagged:
            yield f"if {_is_set(slot)}:"
            yield "    put = []"
            yield from _indent(self._tagged(slot))
            yield f"    tags.append(({slot.field.tag}, put))"
        yield "if tags:"
        yield "    write_tags(write, tags)"
        yield "else:"
        yield '    write(b"\\x00")'

    def _tagged(self, slot: FieldSlot) -> Iterator[str]:
        if _is_fixed(slot.field):
            code = SCALARS[slot.field.type][0]
            yield f"put.append({self._pack([code])}(msg.{slot.name}))"
        else:
            yield from self._slot(slot, "put.append")


def _is_set(slot: FieldSlot) -> str:
    """Whether a tagged field is on the wire: only if it differs from its default, as in Kafka."""
    value = f"msg.{slot.name}"
    if is_absent_by_default(slot.field) and not slot.nullable:
        return f"{value} is not None and {value} != {slot.field.type}()"
    expected = default(slot.field)
    if expected == "None":
        return f"{value} is not None"
    if expected in ("[]", "False") and not slot.nullable:
        return value
    return f"{value} != {expected}"


def _is_fixed(field: SchemaField) -> bool:
    return field.type in SCALARS and not field.is_array


def _indent(lines: Iterator[str] | list[str], levels: int = 1) -> Iterator[str]:
    for line in lines:
        yield "    " * levels + line
