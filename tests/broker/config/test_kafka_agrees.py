"""Names, types, defaults and dynamic keys against Apache Kafka 4.4's own definition."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from broker.config.key import LIST, ConfigKey
from broker.config.keys import (
    BROKER_KEYS,
    TOPIC_DEFAULTS,
    TOPIC_KEYS,
    ZOOKEEPER_KEYS,
    Dynamic,
    is_foreign,
)
from deploy.servers.process import class_path
from deploy.setup.java import ensure_java
from deploy.setup.server_jars import kafka_jars

pytestmark = pytest.mark.java

OURS = {"node.id", "process.roles", "controller.listener.names"}
"""Kafka requires these; here they have a default."""

BOUNDED = {"max.connections", "socket.receive.buffer.bytes", "socket.send.buffer.bytes"}
"""Kafka has no bound here, or one where we have none; docs/differences-from-kafka.md says why."""

INTERNAL = {
    "producer.id.expiration.check.interval.ms",
    "unclean.leader.election.interval.ms",
    # Kafka keeps these three in a table of their own and takes them only while running.
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
}
"""Kafka has them but does not show them; here an operator may see what there is."""

NOT_WHILE_RUNNING = {
    "listeners",
    "listener.security.protocol.map",
    "sasl.enabled.mechanisms",
    "sasl.jaas.config",
    "sasl.kerberos.principal.to.local.rules",
    "sasl.kerberos.service.name",
    "sasl.mechanism.inter.broker.protocol",
}
"""Kafka opens and closes listeners while it runs; docs/differences-from-kafka.md says what we do."""

OWN = {
    "produce.records.validation.enable",
    "log.scrub.bytes.per.second",
    "mirror.listener.name",
    "mirror.reserved.topics",
    "mirror.site.epoch",
    "mirror.site.confirmation",
    "mirror.site.members",
    "site.number",
}
"""Keys of our own, each a difference that docs/differences-from-kafka.md explains."""

PROGRAM = """
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.*;
import org.apache.kafka.storage.internals.log.LogConfig;

public class Dump {
    public static void main(String[] arguments) throws Exception {
        dump("broker", AbstractKafkaConfig.CONFIG_DEF);
        dump("topic", LogConfig.configDefCopy());
        DynamicBrokerConfig.dynamicConfigUpdateModes().forEach(
            (name, mode) -> System.out.println("dynamic\\t" + name + "\\t" + mode));
        ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.forEach((name, keys) ->
            keys.forEach(key -> System.out.println("synonym\\t" + name + "\\t" + key.name())));
    }

    static void dump(String scope, ConfigDef definition) {
        for (ConfigDef.ConfigKey key : definition.configKeys().values())
            if (!key.internalConfig)
                System.out.println(String.join("\\t", scope, key.name, key.type.name(), shown(key)));
    }

    static String shown(ConfigDef.ConfigKey key) {
        if (!key.hasDefault()) return "";
        return String.valueOf(ConfigDef.convertToString(key.defaultValue, key.type));
    }
}
"""


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    source = tmp_path_factory.mktemp("config") / "Dump.java"
    source.write_text(PROGRAM)
    java = Path(str(ensure_java()))
    done = subprocess.run(
        [str(java), "-cp", class_path(kafka_jars()), str(source)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    if "jdk.compiler" in done.stderr:
        pytest.skip("this Java cannot compile; install a JDK")
    assert done.returncode == 0, done.stderr
    return [line.split("\t") for line in done.stdout.splitlines()]


def shown(row: ConfigKey) -> str:
    text = row.text(row.default)
    return "null" if text is None else text


@pytest.mark.parametrize("scope", ["broker", "topic"])
def test_every_key_has_kafkas_type_and_default(kafka: list[list[str]], scope: str) -> None:
    table = BROKER_KEYS if scope == "broker" else TOPIC_KEYS
    theirs = {name: (kind, default) for s, name, kind, default in
              (line for line in kafka if len(line) == 4) if s == scope}  # fmt: skip
    assert sorted(set(table) - set(theirs) - INTERNAL - ZOOKEEPER_KEYS - OWN) == []
    wrong = {}
    for name, row in table.items():
        if name in INTERNAL | ZOOKEEPER_KEYS | OWN:
            continue
        kind, default = theirs[name]
        same = shown(row) == default or (row.type is LIST and not row.default and not default)
        if kind != row.type.name or not (same or name in OURS | BOUNDED or _same_number(row, default)):
            wrong[name] = (row.type.name, shown(row), kind, default)
    assert not wrong


def _same_number(row: ConfigKey, theirs: str) -> bool:
    try:
        return float(theirs) == float(row.default)
    except (TypeError, ValueError):
        return False


def test_every_key_of_kafka_is_known_or_known_to_have_no_effect(kafka: list[list[str]]) -> None:
    names = {line[1] for line in kafka if line[0] == "broker"}
    assert {n for n in names if n not in BROKER_KEYS and not is_foreign(n)} == set()
    assert {line[1] for line in kafka if line[0] == "topic"} == set(TOPIC_KEYS)


def test_the_same_keys_may_change_while_running(kafka: list[list[str]]) -> None:
    modes = {line[1]: line[2] for line in kafka if line[0] == "dynamic"}
    wrong = {
        name: (row.dynamic.value, modes.get(name, "read-only"))
        for name, row in BROKER_KEYS.items()
        if name not in NOT_WHILE_RUNNING | OWN
        and row.dynamic.value != modes.get(name, Dynamic.READ_ONLY.value)
    }
    assert not wrong


def test_topic_defaults_come_from_the_same_broker_keys(kafka: list[list[str]]) -> None:
    theirs: dict[str, list[str]] = {}
    for line in kafka:
        if line[0] == "synonym" and not is_foreign(line[2]):
            theirs.setdefault(line[1], []).append(line[2])
    assert {name: [key for key, _ in keys] for name, keys in TOPIC_DEFAULTS.items()} == theirs
