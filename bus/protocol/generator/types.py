"""The classes of a message: one `msgspec.Struct` per struct, with the fields of all its versions.

In: `SchemaMessage`. Out: lines of Python.
msgspec, because a class costs 30 us to create and an instance 0.2 us, where a dataclass costs
1 ms and 0.6 us; `gc=False`, because messages hold no cycles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bus.protocol.generator.model import SchemaField, SchemaMessage

_PYTHON = {
    "bool": "bool",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "legacy_string": "str",
    "bytes": "bytes",
}
_RESERVED = {"buf", "at", "n", "end", "item", "count", "tag", "size", "stop", "error"}


def snake(name: str) -> str:
    """BrokerRegistration -> broker_registration."""
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def local(name: str) -> str:
    """The local variable for a field: its name, unless the functions use that for themselves."""
    return name + "_" if name in _RESERVED else name


def class_lines(message: SchemaMessage, response: str = "") -> Iterator[str]:
    """The classes of a message, structs before those that hold them. `response`: of a request, the
    class that answers it."""
    done: set[str] = set()
    for name in _in_need_order(message):
        if name not in done:
            done.add(name)
            yield from _class(name, message.structs[name], message.kind)
    yield from _class(message.name, message.fields, message.kind, response)


def _in_need_order(message: SchemaMessage) -> Iterator[str]:
    def below(fields: tuple[SchemaField, ...]) -> Iterator[str]:
        for field in fields:
            if field.is_struct:
                yield from below(message.structs[field.type])
                yield field.type

    return below(message.fields)


def _class(
    name: str, fields: tuple[SchemaField, ...], kind: str, response: str = ""
) -> Iterator[str]:
    yield f"class {name}(Struct, gc=False):"
    for field in fields:
        yield f"    {field.name}: {annotation(field, kind)} = {_declared_default(field)}"
    if response:
        yield from [""] if fields else []
        yield f"    def response_type(self) -> _type[{response}]:"
        yield f"        return {response}"
    elif not fields:
        yield "    pass"
    yield ""
    yield ""


def annotation(field: SchemaField, kind: str) -> str:
    """The type hint of a field."""
    if field.type == "records":
        # A response is also built by us, from several ranges of a log.
        base = "Buffer | list[Buffer]" if kind == "response" else "Buffer"
    else:
        base = _PYTHON.get(field.type, field.type if field.is_struct else "int")
    if field.is_array:
        base = f"list[{base}]"
    return f"{base} | None" if field.nullable or is_absent_by_default(field) else base


def is_absent_by_default(field: SchemaField) -> bool:
    """A tagged struct is None where it is not on the wire, instead of a struct full of defaults."""
    return field.is_struct and not field.is_array and field.tag is not None


def default(field: SchemaField) -> str:
    """The default value as an expression that makes a fresh one."""
    if field.default == "null" or is_absent_by_default(field):
        return "None"
    if field.is_array:
        return "[]"
    if field.is_struct:
        return f"{field.type}()"
    return _scalar_default(field)


def _scalar_default(field: SchemaField) -> str:
    if field.type == "bool":
        return "True" if field.default == "true" else "False"
    if field.type in ("string", "legacy_string"):
        return repr(field.default or "")
    if field.type in ("bytes", "records"):
        return 'b""'
    if field.type == "uuid":
        return "NO_UUID"
    return field.default or "0"


def _declared_default(field: SchemaField) -> str:
    value = default(field)
    return f"field(default_factory={field.type})" if value.endswith("()") else value
