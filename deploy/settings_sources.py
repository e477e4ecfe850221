"""Where settings come from: a TOML file, the environment, flags; each value with its place.

In: texts. Out: `Entry` values in order. Never: validation against a room's classes.
"""

from __future__ import annotations

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.errors import OperatorError

PREFIX = "DATABUS_"
# Variables of the set-up itself; they are no settings of a room.
NOT_SETTINGS = frozenset(
    {
        "DATABUS_PYTHON",
        "DATABUS_VENV",
        "DATABUS_CACHE",
        "DATABUS_CONFIG",
        "DATABUS_SUPERVISOR",
        "DATABUS_NO_INSTALL",
        "DATABUS_SEED",
        "DATABUS_CLUSTER_TESTS",
    }
)
_TABLE = re.compile(r"^\s*\[\s*([A-Za-z0-9_\-]+)\s*\]")
_KEY = re.compile(r"""^\s*(?:"([^"]+)"|'([^']+)'|([A-Za-z0-9_\-.]+))\s*=""")


class SettingsError(OperatorError):
    """A setting that cannot be used; the text says where it stands and what would do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One value, the room and key it is for, and where a person finds it.

    `is_text` marks values that can only be text (variables, flags) and are read leniently.
    """

    room: str
    key: str
    value: Any
    where: str
    is_text: bool = False

    @property
    def plain(self) -> Any:
        """The value to convert: a text that holds a list or a table is taken as such, written as
        JSON or as the settings file has it.
        """
        if self.is_text and self.value[:1] in ("[", "{"):
            return _list_or_table(self.value)
        return self.value


def _list_or_table(text: str) -> Any:
    """`{"server-1": "secret"}` (JSON) or `{server-1 = "secret"}` (TOML); the text if neither."""
    for read in (json.loads, lambda value: tomllib.loads(f"value = {value}")["value"]):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def unknown(what: str, name: str, known: Iterable[str]) -> str:
    """The sentence for a name nobody knows, with the nearest one."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(sorted(names))}"
    return f"there is no {what} '{name}'{hint}"


def from_toml(path: Path, text: str) -> list[Entry]:
    """The entries of a settings file; the broker's dotted keys stay whole."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from error
    lines = _line_numbers(text)
    entries = []
    for room, table in tables.items():
        where = f"{path} line {lines.get((room, ''), 1)}"
        if not isinstance(table, dict):
            raise SettingsError(f"{where}: '{room}' stands outside a table; write [room] first")
        for key, value in _flat(table) if room == "broker" else table.items():
            line = lines.get((room, key), lines.get((room, ""), 1))
            entries.append(Entry(room, key, value, f"{path} line {line}"))
    return entries


def from_environment(environment: Mapping[str, str], rooms: Sequence[str]) -> list[Entry]:
    """`DATABUS_EDGE_PORT=8650` and the like; for the broker `_` stands for Kafka's dots."""
    entries = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        room, _, key = name.removeprefix(PREFIX).lower().partition("_")
        where = f"environment variable {name}"
        if room not in rooms or not key:
            raise SettingsError(f"{where}: {unknown('room', room, rooms)}")
        entries.append(Entry(room, _environment_key(room, key), environment[name], where, True))
    return entries


def from_flags(flags: Sequence[str]) -> list[Entry]:
    """`--set edge.port=8650`."""
    entries = []
    for flag in flags:
        name, equals, value = flag.partition("=")
        room, dot, key = name.strip().partition(".")
        if not equals or not dot or not key:
            raise SettingsError(f"--set {flag}: write it as room.key=value")
        entries.append(Entry(room, key, value, f"--set {flag}", True))
    return entries


def _environment_key(room: str, key: str) -> str:
    return key.replace("_", ".") if room == "broker" else key


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """TOML reads `log.segment.bytes = 1` as nested tables; Kafka's key is the whole path."""
    pairs: list[tuple[str, Any]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            pairs.append((prefix + key, value))
    return pairs


def _line_numbers(text: str) -> dict[tuple[str, str], int]:
    """(room, key) → line number; (room, '') is the table's own line."""
    numbers: dict[tuple[str, str], int] = {}
    room = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if table := _TABLE.match(line):
            room = table.group(1)
            numbers[room, ""] = number
        elif key := _KEY.match(line):
            name = key.group(1) or key.group(2) or key.group(3)
            numbers.setdefault((room, name) if room else (name, ""), number)
    return numbers
