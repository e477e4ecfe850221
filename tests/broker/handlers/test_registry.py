"""The table of APIs against the files and against Apache Kafka's own answer."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import broker.handlers
from broker.handlers.listener_type import ListenerType
from broker.handlers.registry import SERVED, advertised_ranges, load_handler, version_range
from bus.protocol.apis import APIS

FOLDER = Path(broker.handlers.__file__).parent
FILES = sorted(FOLDER.glob("k[0-9][0-9]*_*.py"))
PRIVATE = {10001: (0, 0), 10002: (0, 0), 10003: (0, 0)}
"""Ours; advertised where a mirror connects and nowhere else."""

KAFKA_44 = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6),
    11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 17: (0, 1), 18: (0, 5),
    19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5), 23: (2, 4), 29: (1, 3),
    30: (1, 3), 31: (1, 3), 32: (1, 4), 33: (0, 2),
    34: (1, 2), 35: (1, 5), 36: (0, 2), 37: (0, 3), 38: (1, 3), 39: (1, 2), 40: (1, 2),
    41: (1, 3), 42: (0, 3), 43: (0, 2), 44: (0, 1), 45: (0, 1),
    46: (0, 0), 47: (0, 0), 48: (0, 1), 49: (0, 1), 50: (0, 0), 51: (0, 0), 55: (0, 2), 57: (0, 2),
    60: (0, 2), 61: (0, 0),
    64: (0, 0), 74: (0, 1), 75: (0, 0), 80: (0, 1), 81: (0, 0), 94: (0, 0),
}  # fmt: skip


def test_every_handler_file_is_in_the_table_and_the_other_way_round() -> None:
    """One file per API, one table of them."""
    assert {path.stem for path in FILES} == {served.module for served in SERVED.values()}


def test_a_handlers_file_is_named_after_its_key() -> None:
    """`k08_offset_commit.py` is API 8."""
    for key, served in SERVED.items():
        assert served.module.startswith(f"k{key:02d}_")
        assert served.module.partition("_")[2] == APIS[key].module_name
        assert callable(load_handler(key))


def test_every_handler_tells_its_behaviour_and_its_versions() -> None:
    """The versions in the docstring are those that are served."""
    for path in FILES:
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        key = int(path.stem[1:].partition("_")[0])
        assert "Behaviour:" in text, path.name
        match = re.search(r"Versions: (\d+)(?:-(\d+))?", text)
        assert match is not None, path.name
        assert (int(match[1]), int(match[2] or match[1])) == version_range(key), path.name


def test_what_is_advertised_is_what_kafka_4_4_advertises() -> None:
    """Of the APIs we serve, the whole range (kafka_protocol.md 2.1, live answer of 4.4.0)."""
    assert advertised_ranges() == KAFKA_44


def test_a_mirrors_listener_serves_what_another_one_serves_and_our_private_apis() -> None:
    """On both kinds of brokers; no other type of listener serves one of the private APIs."""
    for kind in (ListenerType.BROKER, ListenerType.ZOOKEEPER_BROKER):
        expected = advertised_ranges(kind) | PRIVATE
        assert advertised_ranges(kind | ListenerType.MIRROR) == expected
    for kind in (ListenerType.BROKER, ListenerType.CONTROLLER, ListenerType.ZOOKEEPER_BROKER):
        assert not PRIVATE.keys() & advertised_ranges(kind).keys()
