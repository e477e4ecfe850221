"""One configuration key: its type, how its text is parsed and formatted.

Parsing raises ``ConfigError`` in the words Kafka's clients show. The views know where a value comes
from.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from broker.config.checks import Check, InvalidConfig, InvalidPart

MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1
MAX_ARRAY_BYTES = (1 << 31) - 9
"""The largest array of a Java process, which Kafka takes for "no bound"."""
MAX_DOUBLE = 1.7976931348623157e308


class ConfigType(Enum):
    """Kafka's types, with the numbers DescribeConfigs uses for them."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Scope(Enum):
    """Whose key it is."""

    BROKER = "broker"
    TOPIC = "topic"


class Dynamic(Enum):
    """Whether a broker key may be changed while the broker runs, and for whom."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


BOOLEAN, STRING, INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
SHORT, LONG, DOUBLE = ConfigType.SHORT, ConfigType.LONG, ConfigType.DOUBLE
LIST, CLASS, PASSWORD = ConfigType.LIST, ConfigType.CLASS, ConfigType.PASSWORD
READ_ONLY, PER_BROKER = Dynamic.READ_ONLY, Dynamic.PER_BROKER
CLUSTER_WIDE = Dynamic.CLUSTER_WIDE


class ConfigError(Exception):
    """An unknown key or an invalid value. ``str()`` is meant for the operator."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(message)
        self.name = name
        self.message = message


class ConfigKey(NamedTuple):
    """One row of the table. ``default`` is a typed value; ``None`` means unset."""

    name: str
    type: ConfigType
    default: Any
    doc: str
    scope: Scope
    dynamic: Dynamic
    check: Check | None

    @property
    def sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    def parse(self, text: str) -> Any:
        """Parse a text; raises ConfigError."""
        try:
            value = _PARSERS[self.type](text.strip())
        except ValueError as error:
            raise self._error(text, str(error)) from None
        if self.type is ConfigType.LIST and "" in value:
            raise ConfigError(self.name, f"Configuration '{self.name}' values must not be empty.")
        fault = self.check(value) if self.check else None
        if isinstance(fault, InvalidConfig):
            raise ConfigError(self.name, f"requirement failed: {fault.sentence}")
        if isinstance(fault, InvalidPart):
            raise self._error(fault.part, fault.reason)
        if fault is not None:
            raise self._error(_as_java(value), fault)
        return value

    def text(self, value: Any) -> str | None:
        """The text of a value of this key, as Kafka formats it; ``None`` for unset."""
        if value is None:
            return None
        if self.type is ConfigType.LIST:
            return ",".join(value)
        return _as_java(value)

    def _error(self, text: str, reason: str) -> ConfigError:
        printed = "[hidden]" if self.sensitive else text
        return ConfigError(
            self.name, f"Invalid value {printed} for configuration {self.name}: {reason}"
        )


def _as_java(value: Any) -> str:
    """A value as Java prints it and Kafka shows it: `true`, `2.0`, `1.79E308`, `[a]`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "-Infinity" if value < 0 else "Infinity"
        return repr(value).replace("e+", "E").replace("e", "E")
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return str(value)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("Expected value to be either true or false")
    return text.lower() == "true"


def _whole_number(low: int, high: int, name: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not _JAVA_WHOLE.fullmatch(text) or not low <= int(text) <= high:
            raise ValueError(f"Not a number of type {name}")
        return int(text)

    return parse


_JAVA_WHOLE = re.compile(r"[+-]?\d{1,40}")
_JAVA_DOUBLE = re.compile(
    r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[fFdD]?|NaN|Infinity)", re.ASCII
)


def _double(text: str) -> float:
    """As Java reads one, but for its hexadecimal form: `.5f` is one, `1_0` and `inf` are none."""
    if not _JAVA_DOUBLE.fullmatch(text):
        raise ValueError("Not a number of type DOUBLE")
    return float(text.rstrip("fFdD"))


def _list(text: str) -> tuple[str, ...]:
    """Each item once, as Kafka 4.4 takes a list in which one stands twice."""
    return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()


_PARSERS: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: _boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _whole_number(-MAX_INT - 1, MAX_INT, "INT"),
    ConfigType.SHORT: _whole_number(-(1 << 15), (1 << 15) - 1, "SHORT"),
    ConfigType.LONG: _whole_number(-MAX_LONG - 1, MAX_LONG, "LONG"),
    ConfigType.DOUBLE: _double,
    ConfigType.LIST: _list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
    ConfigType.UNKNOWN: str,
}


def key(
    name: str,
    kind: ConfigType,
    default: Any,
    doc: str,
    dynamic: Dynamic = READ_ONLY,
    check: Check | None = None,
) -> ConfigKey:
    """A row of a broker table."""
    return ConfigKey(name, kind, default, doc, Scope.BROKER, dynamic, check)


def unknown_key(name: str) -> ConfigKey:
    """The row of an unknown key: it may be a secret, so its value is never shown."""
    return ConfigKey(
        name, ConfigType.UNKNOWN, None, "Not known here.", Scope.BROKER, READ_ONLY, None
    )


def topic_key(
    name: str, kind: ConfigType, default: Any, doc: str, check: Check | None = None
) -> ConfigKey:
    """A row of the topic table."""
    return ConfigKey(name, kind, default, doc, Scope.TOPIC, CLUSTER_WIDE, check)
