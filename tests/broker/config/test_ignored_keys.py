"""What has no effect is said, and what is said to have none has none."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from broker.config.checks import numbers_by_address
from broker.config.ignored_keys import IGNORED_KEYS, explain_ignored
from broker.config.key import ConfigError
from broker.config.keys import BROKER_KEYS, TOPIC_DEFAULTS, TOPIC_KEYS, parse
from broker.config.views import BrokerConfig
from broker.handlers import own_configs
from bus.contracts.site_confirmation import (
    SITE_CONFIRMATION_KEY,
    SITE_MEMBERS_KEY,
    TARGET_CLUSTER_KEY,
)
from bus.contracts.site_epoch import SITE_EPOCH_KEY

PACKAGES = ("broker", "deploy")
ROOT = Path(__file__).parents[3]
WRITTEN_AS_FLAG = {"cleanup.policy", "message.timestamp.type"}
"""`TopicConfig` makes attributes with other names of these."""
THREADS = {*own_configs.THREADS, own_configs.CLEANER_THREADS}
LAGS = {"min.compaction.lag.ms", "max.compaction.lag.ms"}
KEPT = {
    SITE_EPOCH_KEY,
    SITE_CONFIRMATION_KEY,
    SITE_MEMBERS_KEY,
    TARGET_CLUSTER_KEY,
    *THREADS,
    *LAGS,
    *(f"log.cleaner.{name}" for name in LAGS),
}
"""Those of two sites are read by their names in `bus.contracts`. The others are read to refuse
a change Kafka would refuse; nothing else depends on them."""


@pytest.fixture(scope="module")
def source() -> str:
    """The packages' source without the tables themselves."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return "\n".join(
        path.read_text(encoding="utf-8")
        for path in paths
        if path.parent != ROOT / "broker" / "config" or path.name == "views.py"
    )


def is_read(name: str, source: str) -> bool:
    """Whether a key is named anywhere, or its attribute of `TopicConfig` is looked at."""
    if f'"{name}"' in source or name in WRITTEN_AS_FLAG:
        return True
    attribute = name.replace(".", "_")
    return name in TOPIC_KEYS and re.search(rf"\.{attribute}\b", source) is not None


def test_every_key_is_read_somewhere_or_said_to_have_no_effect(source: str) -> None:
    """An accepted setting without effect would be misleading."""
    defaults = {key: topic for topic, rows in TOPIC_DEFAULTS.items() for key, _ in rows}
    wrong = []
    for name in [*BROKER_KEYS, *TOPIC_KEYS]:
        read = is_read(name, source) or is_read(defaults.get(name, name), source)
        if read == (name in IGNORED_KEYS) and name not in KEPT:
            wrong.append(name)
    assert wrong == []


def test_what_is_said_to_have_no_effect_is_a_key() -> None:
    """And none is forgotten there when it is taken out of the tables."""
    assert set(IGNORED_KEYS) <= {*BROKER_KEYS, *TOPIC_KEYS}


def test_a_key_without_effect_is_said_when_it_is_set(caplog: pytest.LogCaptureFixture) -> None:
    """With the reason; the others are not."""
    with caplog.at_level(logging.WARNING, "broker.config"):
        BrokerConfig.from_mapping({"num.io.threads": "16", "num.partitions": "3"})
    assert [record.getMessage() for record in caplog.records] == [
        "num.io.threads has no effect here: one event loop does the work of all threads"
    ]
    assert explain_ignored("num.io.threads", "Threads.").startswith("Threads. No effect here: ")
    assert explain_ignored("num.partitions", "Partitions.") == "Partitions."


def test_bounds_by_address_are_read_and_anything_else_is_refused() -> None:
    """As `max.connections.per.ip.overrides` writes them; an address of IPv6 has colons itself."""
    assert numbers_by_address("10.0.0.7:20, ::1:5 ,") == {"10.0.0.7": 20, "::1": 5}
    for wrong in ("10.0.0.7", ":5", "10.0.0.7:x", "10.0.0.7:-1"):
        with pytest.raises(ConfigError, match="is not address:number"):
            parse("max.connections.per.ip.overrides", wrong)
