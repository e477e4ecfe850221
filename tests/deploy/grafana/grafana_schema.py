"""What of a board does not fit Grafana's schema. Pure.

In: a board as JSON. Out: sentences, each with the place; none if the board fits. Grafana's own
models (grafana-foundation-sdk, made from its schema) read a board without looking at types and pass
over fields that they do not know: here values are compared with the models' annotations, and what a
model does not give back is a field that Grafana has not.
"""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from grafana_foundation_sdk.cog import runtime
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

SCALARS: dict[object, tuple[type, ...]] = {
    str: (str,), bool: (bool,), int: (int,), float: (int, float), type(None): (type(None),)
}  # fmt: skip


def faults_of(board: Mapping[str, Any]) -> list[str]:
    """Of a board that Grafana 11 is to import."""
    register_default_plugins()
    try:
        read = Dashboard.from_json(dict(board))
        written = json.loads(JSONEncoder().encode(read))
    except (TypeError, AttributeError, KeyError, ValueError) as error:
        return [f"board: cannot be read: {error}"]
    return [*_unknown("board", board, written), *_of_object("board", read)]


def _unknown(place: str, given: object, written: object) -> Iterator[str]:
    """What a model has not given back."""
    if isinstance(given, Mapping) and isinstance(written, Mapping):
        for name, value in given.items():
            if name not in written and value is not None:
                yield f"{place}.{name}: Grafana knows no such field"
            else:
                yield from _unknown(f"{place}.{name}", value, written.get(name))
    elif isinstance(given, list) and isinstance(written, list):
        for number, (one, other) in enumerate(zip(given, written, strict=True)):
            yield from _unknown(f"{place}[{number}]", one, other)
    elif given != written:
        yield f"{place}: {given!r} is read as {written!r}"


def _of_object(place: str, read: object) -> Iterator[str]:
    """The fields of a model."""
    for name, hint in _hints(type(read)).items():
        yield from _of_value(f"{place}.{name.removesuffix('_val')}", getattr(read, name), hint)
    if isinstance(read, Panel):
        yield from _of_panel(place, read)


@cache
def _hints(model: type) -> dict[str, Any]:
    return typing.get_type_hints(model)


def _of_panel(place: str, panel: Panel) -> Iterator[str]:
    """What a panel's type and its source decide."""
    if runtime.panelcfg_config(panel.type_val) is None:
        yield f"{place}.type: Grafana has no panel {panel.type_val!r}"
    elif panel.options is not None:
        yield from _of_object(f"{place}.options", panel.options)
    for number, query in enumerate(panel.targets or ()):
        if isinstance(query, runtime.UnknownDataquery):
            yield f"{place}.targets[{number}]: Grafana has no such source"
        else:
            yield from _of_object(f"{place}.targets[{number}]", query)
    if panel.field_config is not None and panel.field_config.defaults.custom is not None:
        yield from _of_object(f"{place}.fieldConfig.custom", panel.field_config.defaults.custom)


def _of_value(place: str, value: object, hint: Any) -> Iterator[str]:
    if not any(_fits(value, one) for one in _choices(hint)):
        yield f"{place}: {value!r} is not {getattr(hint, '__name__', hint)}"
        return
    for one in _choices(hint):
        if typing.get_origin(one) is list and isinstance(value, list):
            for number, item in enumerate(value):
                yield from _of_value(f"{place}[{number}]", item, typing.get_args(one)[0])
        elif typing.get_origin(one) is dict and isinstance(value, dict):
            for key, item in value.items():
                yield from _of_value(f"{place}.{key}", item, typing.get_args(one)[1])
        elif _is_model(one) and isinstance(value, one):
            yield from _of_object(place, value)
        elif _is_model(one) and isinstance(value, dict):  # left as it was by the model around it
            yield from _of_object(place, one.from_json(value))


def _choices(hint: Any) -> tuple[Any, ...]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(found for one in typing.get_args(hint) for found in _choices(one))
    return (hint,)


def _fits(value: object, hint: Any) -> bool:
    """Whether a value may stand there, its parts not looked at."""
    if hint in (object, Any):
        return True
    if hint in SCALARS:
        wanted = SCALARS[hint]
        return isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return value in typing.get_args(hint)
    if origin in (list, dict):
        return isinstance(value, origin)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return value in [one.value for one in hint]
    if not isinstance(hint, type):
        raise AssertionError(f"a hint that this checker does not know: {hint}")
    return isinstance(value, hint) or (_is_model(hint) and isinstance(value, dict))


def _is_model(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "from_json")
