"""Values that may differ between two clusters: ids, addresses, times; everything else is compared.

In: an answer as plain values. Out: the same with such values replaced by a word. Never: an omitted
field that the row did not exclude.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

NO_UUID = bytes(16)

ALWAYS: Mapping[str, Callable[[Any], Any]] = {
    "throttle_time_ms": lambda _: 0,
    "cluster_id": lambda value: value and "<cluster>",
    "host": lambda value: value and "<host>",
    "port": lambda value: "<port>" if value > 0 else value,
}

BY_NAME: Mapping[str, Collection[str]] = {
    "texts": ("error_message",),
    "times": ("timestamp", "log_append_time_ms", "last_timestamp", "last_caught_up_timestamp",
              "last_fetch_timestamp"),
    "ids": ("member_id", "leader", "leader_id", "producer_id", "producer_epoch", "node_id",
            "broker_id", "controller_id"),
    "epochs": ("leader_epoch", "broker_epoch", "current_leader_epoch"),
    "offsets": ("high_watermark", "log_end_offset"),
    "records": ("records",),
    "served": ("api_keys", "supported_features", "finalized_features", "finalized_features_epoch"),
    "order": (),
    "ours": (),
}  # fmt: skip
"""Parts that a row may exclude by name because it does not test them. `order`: the order of list
entries, which Kafka shuffles in some answers and takes from a hash map in others."""


def plain(value: Any, names: Mapping[Any, str], left_out: Collection[str] = ()) -> Any:
    """An answer as JSON values. `names`: value -> its placeholder, longest texts first."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes(bytes(value), names)
    if isinstance(value, str):
        return _text(value, names)
    if isinstance(value, list):
        return [plain(one, names, left_out) for one in value]
    if hasattr(value, "__struct_fields__"):
        return {
            name: _field(name, getattr(value, name), names, left_out)
            for name in value.__struct_fields__
            if name not in left_out
        }
    return value


def kept(value: Any, only: Collection[str]) -> Any:
    """The fields in `only` of all messages, and their parents; all fields if `only` is empty."""
    if not only:
        return value
    if isinstance(value, list):
        return [kept(one, only) for one in value]
    if isinstance(value, dict):
        return {
            name: one if name in only else kept(one, only)
            for name, one in value.items()
            if name in only or isinstance(one, (dict, list))
        }
    return value


def unordered(value: Any) -> Any:
    """The same with every list of messages sorted by its text."""
    if isinstance(value, dict):
        return {name: unordered(one) for name, one in value.items()}
    if isinstance(value, list):
        return sorted(map(unordered, value), key=repr)
    return value


def differences(said: Any, recorded: Any, path: str = "") -> list[str]:
    """One line per field that differs."""
    if isinstance(said, dict) and isinstance(recorded, dict) and said.keys() == recorded.keys():
        return [
            line
            for name in said
            for line in differences(said[name], recorded[name], f"{path}.{name}")
        ]
    if isinstance(said, list) and isinstance(recorded, list) and len(said) == len(recorded):
        return [
            line
            for at, (one, other) in enumerate(zip(said, recorded, strict=True))
            for line in differences(one, other, f"{path}[{at}]")
        ]
    return [] if said == recorded else [f"{path.lstrip('.')}: recorded {recorded!r}, said {said!r}"]


def _field(name: str, value: Any, names: Mapping[Any, str], left_out: Collection[str]) -> Any:
    rule = ALWAYS.get(name)
    return rule(value) if rule else plain(value, names, left_out)


def _bytes(value: bytes, names: Mapping[Any, str]) -> str:
    if value in names:
        return names[value]
    if len(value) == len(NO_UUID):
        return "<no id>" if value == NO_UUID else "<id>"
    return value.hex()


def _text(value: str, names: Mapping[Any, str]) -> str:
    for known in sorted((one for one in names if isinstance(one, str) and one), key=len)[::-1]:
        value = value.replace(known, names[known])
    return value
