"""Which settings are secrets, as their classes say. Pure.

In: the type of a section, as msgspec describes it, and its values as plain tables. Out: the secrets
among them, or the same tables without. Never: a file, an environment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from msgspec import inspect

Place = tuple[str, ...]
"""Field, and within tables the name of a row, of a field, and so on."""


def section_type(cls: type[msgspec.Struct]) -> inspect.StructType:
    """What a class of settings consists of."""
    kind = inspect.type_info(cls)
    assert isinstance(kind, inspect.StructType)
    return kind


def is_secret(kind: inspect.Type) -> bool:
    """Whether a value of this type is one."""
    return isinstance(kind, inspect.Metadata) and bool((kind.extra or {}).get("secret"))


def secrets_in(kind: inspect.Type, value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Every secret of a value, set or not, however deep."""
    if is_secret(kind):
        yield place, value
    else:
        for name, part, below in _parts(kind, value):
            yield from secrets_in(part, below, (*place, name))


def mapped(
    kind: inspect.Type, value: Any, of_secret: Callable[[str], str], of_text: Callable[[str], str]
) -> Any:
    """The same value with secrets and other texts replaced, however deep."""
    if is_secret(kind):
        return of_secret(value)
    if isinstance(value, dict):
        return {
            name: mapped(part, below, of_secret, of_text)
            for name, part, below in _parts(kind, value)
        }
    if isinstance(kind, inspect.StrType | inspect.Metadata) and isinstance(value, str):
        return of_text(value)
    return value


def _parts(kind: inspect.Type, value: Any) -> Iterator[tuple[str, inspect.Type, Any]]:
    """Rows of a table, fields of a structure; of anything else nothing."""
    if isinstance(kind, inspect.DictType):
        yield from ((name, kind.value_type, below) for name, below in value.items())
    elif isinstance(kind, inspect.StructType):
        yield from ((field.name, field.type, value[field.name]) for field in kind.fields)
