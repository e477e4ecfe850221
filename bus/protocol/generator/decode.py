"""Source of the decoding functions: one per layout, flat, fixed-size runs in one `unpack`.

In: `Layout`. Out: lines of Python: `def NAME(buf, at): ... return MESSAGE, at`.

Slices beyond the buffer come out short instead of raising; the offset then lies beyond the end, so
that the next read or the check at the end of the message raises. Arrays are checked where they
begin, so that no claimed length allocates anything. What Kafka's own readers refuse by its number
alone (limits of 4.4, `bus.limits`) is refused here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bus.protocol.generator.layout import FieldSlot, Layout
from bus.protocol.generator.model import LENGTHS, SCALARS, SchemaField
from bus.protocol.generator.types import default, local

Names = Callable[[Layout], str]
_CONVERSIONS = {
    "string": 'str(buf[at:end], "utf-8")',
    "legacy_string": 'str(buf[at:end], "utf-8")',
    "bytes": "bytes(buf[at:end])",
    "records": "memoryview(buf)[at:end]",
}


class Decoder:
    """Writes the decoder of one layout. `formats` collects the struct formats it needs."""

    def __init__(self, layout: Layout, fields: tuple[SchemaField, ...], names: Names) -> None:
        self._layout = layout
        self._fields = fields
        self._names = names
        self.formats: set[str] = set()

    def nested(self, function: str) -> Iterator[str]:
        """A function for a struct; what goes wrong in it is reported by its message's function."""
        yield f"def {function}(buf, at):"
        yield from _indent(self._body())
        yield f"    return {self._construct()}, at"

    def top(self, function: str) -> Iterator[str]:
        """A function for a whole message: the only place that turns garbage into ProtocolError."""
        name = repr(self._layout.name)
        yield f"def {function}(buf, at):"
        body = list(self._body())
        if body:
            yield "    try:"
            yield from _indent(body, 2)
            yield "    except GARBAGE as error:"
            yield f"        raise broken({name}, error) from None"
        yield "    if at > len(buf):"
        yield f"        raise past_the_end({name})"
        yield f"    return {self._construct()}, at"

    def _construct(self) -> str:
        """The class called by position: fields of other versions get their defaults."""
        present = self._layout.present
        values = [local(f.name) if f.name in present else default(f) for f in self._fields]
        while values and self._fields[len(values) - 1].name not in present:
            values.pop()
        return f"{self._layout.name}({', '.join(values)})"

    def _body(self) -> Iterator[str]:
        run: list[FieldSlot] = []
        for slot in self._layout.slots:
            if _is_fixed(slot.field):
                run.append(slot)
            else:
                yield from self._run(run, self._length_code(slot))
                run = []
                yield from self._slot(slot)
        yield from self._run(run, "")
        if self._layout.flexible:
            yield from self._tags()

    def _run(self, run: list[FieldSlot], length_code: str) -> Iterator[str]:
        """Fixed-size fields side by side, with the length of what follows if that is fixed too."""
        codes = [SCALARS[slot.field.type] for slot in run]
        names = [local(slot.name) for slot in run]
        if length_code:
            codes.append((length_code, 2 if length_code == "h" else 4))
            names.append("n")
        if codes:
            trailing = "," if len(names) == 1 else ""
            unpack = self._unpack([code for code, _ in codes])
            yield f"{', '.join(names)}{trailing} = {unpack}(buf, at)"
            yield f"at += {sum(size for _, size in codes)}"

    def _unpack(self, codes: list[str]) -> str:
        fmt = "".join(codes)
        self.formats.add(fmt)
        return "_u_" + identifier(fmt)

    def _length_code(self, slot: FieldSlot) -> str:
        """The struct code of the length in front of a value, empty if it is a varint or none."""
        if slot.field.type == "legacy_string" and not slot.field.is_array:
            return "h"
        if self._layout.flexible:
            return ""
        if slot.field.is_array:
            return "i"
        return LENGTHS.get(slot.field.type, "")

    def _slot(self, slot: FieldSlot) -> Iterator[str]:
        """A field of variable size whose fixed length, if it has one, is already in `n`."""
        if not self._length_code(slot) and (slot.field.is_array or slot.field.type in LENGTHS):
            yield from _VARINT_LENGTH
        if slot.field.is_array:
            yield from self._unless_null(slot, self._array(slot))
        elif slot.struct is not None:
            yield from self._struct(slot, slot.struct)
        else:
            yield from self._unless_null(slot, _value(slot.field, local(slot.name)))

    def _unless_null(self, slot: FieldSlot, lines: Iterator[str]) -> Iterator[str]:
        yield "if n < 0:"
        if slot.nullable:
            yield f"    {local(slot.name)} = None"
            yield "else:"
            yield from _indent(lines)
        else:
            yield f"    raise null_not_allowed({_full_name(self._layout, slot)})"
            yield from lines

    def _struct(self, slot: FieldSlot, struct: Layout) -> Iterator[str]:
        read = self._names(struct)
        if not slot.nullable:
            yield f"{local(slot.name)}, at = {read}(buf, at)"
            return
        yield "if buf[at] > 127:"
        yield f"    {local(slot.name)} = None"
        yield "    at += 1"
        yield "else:"
        yield f"    {local(slot.name)}, at = {read}(buf, at + 1)"

    def _array(self, slot: FieldSlot) -> Iterator[str]:
        name = local(slot.name)
        code, size = SCALARS.get(slot.field.type, ("", 1))
        too_long = f"{f'n * {size}' if size > 1 else 'n'} > len(buf) - at"
        yield f"if {too_long} or n > MAX_ARRAY_ELEMENTS:"
        yield f"    raise array_too_long({_full_name(self._layout, slot)}, n)"
        if code and code != "16s":
            yield f'{name} = list(unpack_from(f">{{n}}{code}", buf, at))'
            yield f"at += {f'n * {size}' if size > 1 else 'n'}"
            return
        yield f"{name} = []"
        yield "for _ in range(n):"
        yield from _indent(self._item(slot))
        yield f"    {name}.append(item)"

    def _item(self, slot: FieldSlot) -> Iterator[str]:
        if slot.struct is not None:
            yield f"item, at = {self._names(slot.struct)}(buf, at)"
        elif slot.field.type == "uuid":
            yield "item = bytes(buf[at:at + 16])"
            yield "at += 16"
        else:
            yield from self._item_length(slot)
            yield "if n < 0:"
            yield f"    raise null_not_allowed({_full_name(self._layout, slot)})"
            yield from _value(slot.field, "item")

    def _item_length(self, slot: FieldSlot) -> Iterator[str]:
        if self._layout.flexible:
            yield from _VARINT_LENGTH
            return
        code = LENGTHS[slot.field.type]
        yield f"n, = {self._unpack([code])}(buf, at)"
        yield f"at += {2 if code == 'h' else 4}"

    def _tags(self) -> Iterator[str]:
        tagged = self._layout.tagged
        if not tagged:
            yield "if buf[at]:"
            yield "    at = skip_tags(buf, at)"
            yield "else:"
            yield "    at += 1"
            return
        for slot in tagged:
            yield f"{local(slot.name)} = {default(slot.field)}"
        yield "count, at = read_uvarint(buf, at)"
        yield "if count > MAX_TAGGED_FIELDS:"
        yield f"    raise too_many_tags({self._layout.name!r}, count)"
        yield "for _ in range(count):"
        yield "    tag, at = read_uvarint(buf, at)"
        yield "    size, at = read_uvarint(buf, at)"
        yield "    stop = at + size"
        yield "    if stop > len(buf):"
        yield f"        raise past_the_end({self._layout.name!r})"
        for number, slot in enumerate(tagged):
            yield f"    {'elif' if number else 'if'} tag == {slot.field.tag}:"
            yield from _indent(self._tagged(slot), 2)
        yield "    else:"
        yield "        at = stop"

    def _tagged(self, slot: FieldSlot) -> Iterator[str]:
        if _is_fixed(slot.field):
            yield from self._run([slot], "")
        else:
            yield from self._slot(slot)
        yield "if at != stop:"
        yield f"    raise wrong_tag_size({_full_name(self._layout, slot)})"


_VARINT_LENGTH = (
    "n = buf[at] - 1",
    "at += 1",
    "if n > 126:",
    "    n, at = read_length(buf, at - 1)",
)


def identifier(fmt: str) -> str:
    """A struct format as part of a name: `?` becomes `B`, `16s` becomes `U`."""
    return fmt.replace("16s", "U").replace("?", "Z")


def _is_fixed(field: SchemaField) -> bool:
    return field.type in SCALARS and not field.is_array


def _value(field: SchemaField, target: str) -> Iterator[str]:
    yield "end = at + n"
    yield f"{target} = {_CONVERSIONS[field.type]}"
    yield "at = end"


def _full_name(layout: Layout, slot: FieldSlot) -> str:
    return repr(f"{layout.name}.{slot.name}")


def _indent(lines: Iterator[str] | list[str], levels: int = 1) -> Iterator[str]:
    for line in lines:
        yield "    " * levels + line
