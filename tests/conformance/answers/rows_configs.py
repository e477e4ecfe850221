"""Configurations: what Kafka answers when they are set, unset and read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.conformance.answers.case import Ask, Deviation, Step, ask, row
from tests.conformance.answers.steps import (
    APPEND,
    BROKER,
    DELETE,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    alter_all,
    describe,
    led,
    new_topic,
)  # fmt: skip

CLIENT_METRICS, GROUP, LOGGER = 16, 32, 8


def on_topic(key: str, operation: int, value: str | None = None, **more: Any) -> Ask:
    """One change of `{topic}`."""
    return alter(TOPIC, "{topic}", (key, operation, value), **more)


def on_broker(key: str, operation: int, value: str | None = None, **more: Any) -> Ask:
    """One change of broker 1."""
    return alter(BROKER, "1", (key, operation, value), **more)


def on_all(key: str, operation: int, value: str | None = None, **more: Any) -> Ask:
    """One change of all brokers."""
    return alter(BROKER, "", (key, operation, value), **more)


def shows(name: str, key: str, value: str | None) -> Ask:
    """One key of a broker, once it has this value: a change takes effect a little later."""
    shown = describe(BROKER, name, key)
    path = "results.0.configs.0"
    return replace(shown, until={f"{path}.name": key, f"{path}.value": value})


def tried(error: int) -> Ask:
    """CreateTopics with validate_only, once it has this error: the controller gets a broker's
    directories with its next heartbeat."""
    topic = {"name": "{tried}", "num_partitions": 1, "replication_factor": 1}
    asked = ask("CreateTopics", 5, topics=[topic], validate_only=True)
    return replace(asked, until={"topics.0.error_code": error})


def unset(*keys: str) -> list[Step]:
    """Unsets keys of broker 1 and of all brokers."""
    return [on(key, DELETE) for key in keys for on in (on_broker, on_all)]


def resource(kind: int, name: str, *changes: tuple[str, int, str | None]) -> dict[str, Any]:
    """One resource of IncrementalAlterConfigs."""
    [made] = alter(kind, name, *changes).fields["resources"]
    return dict(made)


RETENTION = ("retention.ms", SET, "1000")

TOPICS = [
    *row("K1", "tiered storage is refused before it is written, of a topic that is there",
         on_topic("remote.storage.enable", SET, "true"),
         on_topic("remote.storage.enable", SET, "true", validate_only=True),
         alter_all(TOPIC, "{topic}", {"remote.storage.enable": "true"}),
         alter_all(TOPIC, "{topic}", {"remote.storage.enable": "true"}, validate_only=True),
         on_topic("remote.storage.enable", SET, "false"),
         on_topic("remote.log.copy.disable", SET, "true"),
         on_topic("remote.log.delete.on.disable", SET, "true"),
         on_topic("retention.ms", SET, "5"), given=[new_topic(), led()]),
    *row("K3", "an empty cleanup.policy keeps for ever",
         on_topic("cleanup.policy", SET, ""), describe(TOPIC, "{topic}", "cleanup.policy"),
         on_topic("cleanup.policy", DELETE),
         on_topic("cleanup.policy", SUBTRACT, "delete"),
         describe(TOPIC, "{topic}", "cleanup.policy"),
         on_topic("cleanup.policy", APPEND, "compact,delete"),
         describe(TOPIC, "{topic}", "cleanup.policy"),
         on_topic("cleanup.policy", SUBTRACT, "compact,delete"),
         describe(TOPIC, "{topic}", "cleanup.policy"),
         on_topic("cleanup.policy", SET, "delete,delete"),
         on_topic("cleanup.policy", SET, ","), given=[new_topic(), led()]),
    *row("2", "a key that nobody knows may be unset, not set",
         on_topic("nosuch.key", DELETE), on_topic("nosuch.key", SET, "1"),
         on_topic("nosuch.key", APPEND, "1"), alter_all(TOPIC, "{topic}", {"nosuch.key": "1"}),
         on_topic("internal.segment.bytes", SET, "2000000"),
         on_topic("internal.segment.bytes", DELETE), given=[new_topic(), led()]),
    *row("C10", "a topic that is not there", alter(TOPIC, "nil", RETENTION),
         alter_all(TOPIC, "nil", {"retention.ms": "1"}), alter(TOPIC, "", RETENTION),
         alter(TOPIC, "a b", RETENTION), alter(TOPIC, "nil", ("retention.ms", DELETE, None))),
    *row("texts", "values a topic cannot have", *[on_topic(key, SET, value) for key, value in (
         ("compression.gzip.level", "10"), ("compression.zstd.level", "23"),
         ("compression.lz4.level", "18"), ("retention.ms", "abc"), ("retention.ms", "-5"),
         ("segment.bytes", "100"), ("segment.bytes", "99999999999"), ("cleanup.policy", "x"),
         ("compression.type", "rar"), ("min.insync.replicas", "0"), ("preallocate", "no"),
         ("min.cleanable.dirty.ratio", "1.5"), ("min.cleanable.dirty.ratio", "x"),
         ("message.timestamp.type", "Never"), ("retention.ms", ""), ("retention.ms", None),
         ("leader.replication.throttled.replicas", "x"), ("index.interval.bytes", "-1"),
         ("max.compaction.lag.ms", "0"), ("flush.messages", "0"), ("flush.ms", "-1"),
         ("delete.retention.ms", "-1"), ("segment.ms", "0"), ("file.delete.delay.ms", "-1"),
         ("message.timestamp.before.max.ms", "-1"), ("message.timestamp.after.max.ms", "-1"),
         ("min.compaction.lag.ms", "-1"), ("local.retention.bytes", "-3"))], given=[new_topic(), led()]),
    *row("texts", "numbers as Java reads and shows them", *[
         step for key, value in (
             ("retention.ms", "1_000"), ("retention.ms", " +5 "), ("retention.ms", "1e3"),
             ("retention.ms", "0x10"), ("retention.ms", "9223372036854775808"),
             ("preallocate", "TRUE"), ("cleanup.policy", " compact , delete "),
             ("min.cleanable.dirty.ratio", "0_1"), ("min.cleanable.dirty.ratio", ".5f"),
             ("min.cleanable.dirty.ratio", "1e-1"), ("min.cleanable.dirty.ratio", "Infinity"),
             ("min.cleanable.dirty.ratio", "inf"), ("min.cleanable.dirty.ratio", "nan"))
         for step in (on_topic(key, SET, value),
                      describe(TOPIC, "{topic}", key, synonyms=True))], given=[new_topic(), led()]),
    *row("texts", "operations that cannot be", on_topic("retention.ms", APPEND, "1"),
         on_topic("retention.ms", SUBTRACT, "1"), on_topic("cleanup.policy", APPEND, None),
         on_topic("retention.ms", 9, "1"),
         alter(TOPIC, "{topic}", RETENTION, ("retention.ms", DELETE, None)),
         alter_all(TOPIC, "{topic}", {"retention.ms": None}),
         ask("AlterConfigs", 2, resources=[{"resource_type": TOPIC, "resource_name": "{topic}",
             "configs": [{"name": "retention.ms", "value": "1"}] * 2}]),
         on_topic("retention.ms", SET, "1"), given=[new_topic(), led()]),
    *row("3", "a resource twice in one request",
         ask("IncrementalAlterConfigs", 1, resources=[resource(TOPIC, "{topic}", RETENTION)] * 2),
         ask("IncrementalAlterConfigs", 1, resources=[
             *[resource(TOPIC, "{topic}", RETENTION)] * 2, resource(TOPIC, "nil", RETENTION)]),
         given=[new_topic(), led()], may_differ=["order"]),
]  # fmt: skip

BROKERS = [
    *row("G3", "a list of a broker grows and shrinks from what is in force",
         *[step for on, name in ((on_broker, "1"), (on_all, ""))
           for step in (on("log.cleanup.policy", APPEND, "compact"),
                        shows(name, "log.cleanup.policy", "delete,compact"),
                        on("log.cleanup.policy", SUBTRACT, "compact"),
                        shows(name, "log.cleanup.policy", "delete"),
                        on("log.cleanup.policy", SUBTRACT, "delete"),
                        shows(name, "log.cleanup.policy", ""),
                        on("log.cleanup.policy", DELETE))],
         given=unset("log.cleanup.policy"), afterwards=unset("log.cleanup.policy")),
    *row("G3", "a topic's default follows its broker's list",
         on_all("log.cleanup.policy", APPEND, "compact"),
         shows("", "log.cleanup.policy", "delete,compact"),
         describe(TOPIC, "{topic}", "cleanup.policy", synonyms=True),
         on_all("log.cleanup.policy", SET, ""), shows("", "log.cleanup.policy", ""),
         describe(TOPIC, "{topic}", "cleanup.policy", synonyms=True),
         given=[new_topic(), led()], afterwards=unset("log.cleanup.policy")),
    *row("G5", "a broker's keys that nobody knows are kept and shown",
         on_broker("foo.bar", SET, "x"), shows("1", "foo.bar", None),
         on_broker("foo.bar", APPEND, "y"),
         on_all("foo.bar", SET, "z"), shows("", "foo.bar", None),
         alter_all(BROKER, "1", {"sasl.kerberos.min.time.before.relogin": "1"}),
         alter_all(BROKER, "1", {}),
         on_broker("internal.segment.bytes", SET, "2000000"),
         on_broker("another.foo", DELETE),
         afterwards=[*unset("foo.bar", "internal.segment.bytes"), alter_all(BROKER, "1", {})]),
    *row("G6", "values a broker cannot have", *[on(key, SET, value) for on in (on_broker, on_all)
         for key, value in (("log.retention.ms", "abc"), ("log.cleanup.policy", "x"),
                            ("log.segment.bytes", "1"), ("num.io.threads", "0"),
                            ("log.cleaner.threads", "-1"), ("compression.type", "rar"),
                            ("log.retention.ms", None), ("log.retention.ms", ""))],
         alter_all(BROKER, "1", {"log.retention.ms": "abc"}),
         alter_all(BROKER, "1", {"log.retention.ms": None})),
    *row("G6", "what a broker's times must be",
         *[on(key, SET, value) for on in (on_broker, on_all) for key, value in (
             ("log.roll.ms", "0"), ("log.roll.ms", "-1"), ("log.roll.jitter.ms", "-1"),
             ("log.retention.ms", "0"), ("log.retention.ms", "1_000"))],
         on_broker("log.retention.ms", SET, "-2"),
         alter_all(BROKER, "1", {"log.retention.ms": "0"}),
         afterwards=unset("log.retention.ms")),
    *row("G6", "directories that get nothing new", *[on_broker("cordoned.log.dirs", SET, value) for
         value in ("/nowhere", "/nowhere,/neither", "*,/nowhere", "*")],
         shows("1", "cordoned.log.dirs", "*"), on_all("cordoned.log.dirs", SET, "*"),
         tried(38), on_broker("cordoned.log.dirs", DELETE), tried(0),
         afterwards=[*unset("cordoned.log.dirs"), tried(0)]),
    *row("G6", "a value for all is shown as it was written", on_all("log.retention.ms", SET, " +5000 "),
         shows("", "log.retention.ms", " +5000 "), on_all("log.cleanup.policy", SET, " compact , delete "),
         shows("", "log.cleanup.policy", " compact , delete "),
         afterwards=unset("log.retention.ms", "log.cleanup.policy")),
    *row("3", "threads are at most doubled and at least halved at once",
         *[on_broker(key, SET, value) for key, value in (
             ("num.io.threads", "100"), ("num.io.threads", "17"), ("num.io.threads", "3"),
             ("num.network.threads", "100"), ("num.replica.fetchers", "3"),
             ("num.recovery.threads.per.data.dir", "5"), ("background.threads", "100"),
             ("background.threads", "4"), ("log.cleaner.threads", "4"), ("num.io.threads", "16"))],
         on_all("num.network.threads", SET, "7"), on_all("num.network.threads", SET, "6"),
         alter_all(BROKER, "1", {"num.io.threads": "100"}),
         afterwards=[*unset("num.network.threads"), alter_all(BROKER, "1", {})]),
    *row("C10", "keys a running broker cannot change", on_broker("num.partitions", SET, "2"),
         alter(BROKER, "1", ("num.partitions", SET, "2"), ("node.id", SET, "2")),
         on_broker("num.partitions", DELETE), on_all("num.partitions", SET, "2"),
         on_all("broker.id", SET, "2"), on_broker("log.dirs", SET, "/tmp"),
         alter_all(BROKER, "1", {"num.partitions": "2"}),
         on_all("listener.name.plaintext.ssl.keystore.location", SET, "x"),
         on_all("ssl.keystore.location", SET, "x"), on_broker("num.partitions", APPEND, "2")),
    *row("G7", "another broker's configuration", *[
         step for name in ("77", "abc", "-1", "01") for step in (
             alter(BROKER, name, ("log.retention.ms", SET, "1000"), validate_only=True),
             alter_all(BROKER, name, {"log.retention.ms": "1000"}, validate_only=True))]),
    *row("3", "a broker twice in one request",
         ask("IncrementalAlterConfigs", 1, validate_only=True, resources=[
             resource(BROKER, "1", ("log.retention.ms", SET, "1000"))] * 2),
         may_differ=["order"]),
    *row("3", "an operation that is none", on_broker("log.retention.ms", 9, "1"),
         on_all("log.retention.ms", -1, "1")),
    *row("22", "kinds of resources that are none",
         *[alter(kind, "x", RETENTION) for kind in (0, 3, 7, 64)],
         *[alter_all(kind, "x", {"a": "1"}) for kind in (0, 3, 7)]),
    *row("22", "levels of loggers", alter(LOGGER, "1", ("nosuch.logger", SET, "DEBUG")),
         alter(LOGGER, "77", ("root", SET, "DEBUG")), alter(LOGGER, "1", ("root", SET, "LOUD")),
         alter(LOGGER, "1", ("root", DELETE, None)), alter(LOGGER, "1", ("root", APPEND, "INFO")),
         alter_all(LOGGER, "1", {"root": "INFO"})),
    *row("22", "what is refused before a level is looked at", alter(LOGGER, "1", ("root", SET, None)),
         alter(LOGGER, "1", ("root", 9, "INFO")), alter(LOGGER, "1", ("nil", 9, "INFO")),
         alter(LOGGER, "1", ("root", 9, None)), alter(LOGGER, "1", ("root", -1, "INFO")),
         alter(LOGGER, "1", ("nil", SET, "INFO"), ("root", 9, "INFO")),
         alter(LOGGER, "1", ("root", SET, "INFO"), ("root", SET, "INFO")),
         *[alter(LOGGER, name, ("root", SET, "INFO")) for name in ("", "abc", "-1")]),
]  # fmt: skip

SHOWN = [
    *row("14", "what there is nothing to show of", *[
         describe(kind, name) for kind, name in (
             (TOPIC, "nil"), (TOPIC, "a b"), (TOPIC, ""), (TOPIC, "."), (BROKER, "77"),
             (BROKER, "abc"), (CLIENT_METRICS, ""), (GROUP, ""), (LOGGER, "77"), (LOGGER, ""),
             (LOGGER, "abc"), (3, "x"), (0, ""), (64, "x"))]),
    *row("15", "where a topic's values come from", describe(TOPIC, "{topic}", synonyms=True),
         given=[new_topic(retention_ms="1000", cleanup_policy="compact"), led()],
         may_differ=["order", "ours"]),
    *row("15", "where a topic's values come from, in older versions",
         ask("DescribeConfigs", None, include_synonyms=True, resources=[{
             "resource_type": TOPIC, "resource_name": "{topic}", "configuration_keys": [
                 "retention.ms", "segment.ms", "flush.ms", "cleanup.policy"]}]),
         given=[new_topic(), led()], versions=[1, 2, 3], may_differ=["order"]),
    *row("15", "a broker's own values", describe(
         BROKER, "1", "broker.id", "node.id", "process.roles", "log.retention.hours",
         "log.retention.ms", "log.cleanup.policy", "num.io.threads", "compression.type",
         "leader.replication.throttled.rate", "zookeeper.connect",
         "controlled.shutdown.max.retries", "follower.replication.throttled.rate",
         "log.local.retention.ms", "log.cleaner.io.max.bytes.per.second", synonyms=True),
         may_differ=["order"]),
]  # fmt: skip

VERSIONS = [
    *row("texts", "one alteration in every version", replace(on_topic("retention.ms", SET, "x"), version=None),
         replace(alter(TOPIC, "nil", RETENTION), version=None),
         replace(on_topic("retention.ms", SET, "1"), version=None), given=[new_topic(), led()],
         versions=[0, 1]),
    *row("texts", "one replacement in every version",
         replace(alter_all(TOPIC, "{topic}", {"retention.ms": "x"}), version=None),
         replace(alter_all(TOPIC, "nil", {"retention.ms": "1"}), version=None),
         replace(alter_all(TOPIC, "{topic}", {"retention.ms": "1"}), version=None),
         given=[new_topic(), led()], versions=[0, 1, 2]),
    *row("texts", "one description in every version",
         replace(describe(TOPIC, "{topic}", "retention.ms", "nosuch.key"), version=None),
         replace(describe(TOPIC, "nil"), version=None),
         replace(describe(BROKER, "1", "node.id", "num.io.threads"), version=None),
         given=[new_topic(retention_ms="7"), led()], versions=[1, 2, 3, 4], may_differ=["order"]),
    *row("texts", "keys and resources twice, and none",
         describe(TOPIC, "{topic}", "retention.ms", "retention.ms"),
         ask("DescribeConfigs", 4, resources=[]), ask("IncrementalAlterConfigs", 1, resources=[]),
         ask("AlterConfigs", 2, resources=[]), alter(TOPIC, "{topic}"),
         alter_all(TOPIC, "{topic}", {}),
         ask("DescribeConfigs", 4, resources=[{"resource_type": TOPIC, "resource_name": "{topic}",
             "configuration_keys": []}]), given=[new_topic(), led()], may_differ=["order"]),
    *row("texts", "what has configurations", ask("ListConfigResources", 0),
         ask("ListConfigResources", 1, resource_types=[CLIENT_METRICS, GROUP]),
         ask("ListConfigResources", 1, resource_types=[3]),
         ask("ListConfigResources", 1, resource_types=[0])),
]  # fmt: skip

ROWS: list[Deviation] = [*TOPICS, *BROKERS, *SHOWN, *VERSIONS]
