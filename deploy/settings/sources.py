"""Where settings come from: a TOML file, the environment, flags; each value with its place.

In: texts. Out: `SettingEntry` values in sequence. Never: validation against a section's class.
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
# Variables of the set-up itself; they are no settings of a section.
NOT_SETTINGS = frozenset(
    {
        "DATABUS_CONSOLE_PASSWORD",
        "DATABUS_PYTHON",
        "DATABUS_VENV",
        "DATABUS_CACHE",
        "DATABUS_CONFIG",
        "DATABUS_SUPERVISOR",
        "DATABUS_NO_INSTALL",
        "DATABUS_SEED",
        "DATABUS_EVERY_MEMBER",
        "DATABUS_TURN",
        "DATABUS_CHANGED",
        "DATABUS_TEST_OUTCOMES",
        "DATABUS_VICTIMS",
        "DATABUS_FAULT_RUNS",
        "DATABUS_AWAY_S",
    }
)
_TABLE = re.compile(r"^\s*\[\s*([A-Za-z0-9_\-]+)\s*\]")
_KEY = re.compile(r"""^\s*(?:"([^"]+)"|'([^']+)'|([A-Za-z0-9_\-.]+))\s*=""")


class SettingsError(OperatorError):
    """A setting that cannot be used; the text says where it stands and what would do."""


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """One value, the section and key it is for, and where a person finds it.

    `is_text` marks values that can only be text (variables, flags) and are read leniently.
    """

    section: str
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
    """The sentence for an unknown name, with the nearest known one."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(sorted(names))}"
    return f"there is no {what} '{name}'{hint}"


def from_toml(path: Path, text: str) -> list[SettingEntry]:
    """The entries of a settings file; dotted keys, of Kafka and Spark, stay whole."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from error
    lines = _line_numbers(text)
    entries = []
    for section, table in tables.items():
        where = f"{path} line {lines.get((section, ''), 1)}"
        if not isinstance(table, dict):
            raise SettingsError(
                f"{where}: '{section}' stands outside a table; write [section] first"
            )
        for key, value in _flat(table) if section == "broker" else table.items():
            if (section == "bus" or (section, key) == ("streams", "conf")) and isinstance(
                value, dict
            ):
                value = {name: kafka_text(each) for name, each in _flat(value)}
            line = lines.get((section, key), lines.get((section, ""), 1))
            entries.append(SettingEntry(section, key, value, f"{path} line {line}"))
    return entries


def from_environment(environment: Mapping[str, str], sections: Sequence[str]) -> list[SettingEntry]:
    """`DATABUS_EDGE_PORT=8650` and the like; for the broker `_` stands for Kafka's dots."""
    entries = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in NOT_SETTINGS:
            continue
        section, _, key = name.removeprefix(PREFIX).lower().partition("_")
        where = f"environment variable {name}"
        if section not in sections or not key:
            raise SettingsError(f"{where}: {unknown('section', section, sections)}")
        entries.append(
            SettingEntry(section, _environment_key(section, key), environment[name], where, True)
        )
    return entries


def from_flags(flags: Sequence[str]) -> list[SettingEntry]:
    """`--set edge.port=8650`. What is said of a flag names its key alone: the value may be a
    secret."""
    entries = []
    for flag in flags:
        name, equals, value = flag.partition("=")
        section, dot, key = name.strip().partition(".")
        if not equals or not dot or not key:
            given = name if equals else "…"
            raise SettingsError(f"--set {given}: write it as section.key=value")
        entries.append(SettingEntry(section, key, value, f"--set {name}", True))
    return entries


def _environment_key(section: str, key: str) -> str:
    return key.replace("_", ".") if section == "broker" else key


def _flat(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """TOML reads `log.segment.bytes = 1` as nested tables; Kafka's key is the whole path."""
    pairs: list[tuple[str, object]] = []
    for key, value in table.items():
        if isinstance(value, dict):
            pairs += _flat(value, f"{prefix}{key}.")
        else:
            pairs.append((prefix + key, value))
    return pairs


def kafka_text(value: object) -> str:
    """A TOML value as Kafka writes it in a file of properties."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(kafka_text(each) for each in value)
    return str(value)


def _line_numbers(text: str) -> dict[tuple[str, str], int]:
    """(section, key) → line number; (section, '') is the table's own line."""
    numbers: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if table := _TABLE.match(line):
            section = table.group(1)
            numbers[section, ""] = number
        elif key := _KEY.match(line):
            name = key.group(1) or key.group(2) or key.group(3)
            numbers.setdefault((section, name) if section else (name, ""), number)
    return numbers
