"""The configuration table, its typed views and Kafka's property files."""

from __future__ import annotations

import random
import string

import pytest

from broker.config.key import ConfigType
from broker.config.keys import BROKER_KEYS, TOPIC_DEFAULTS, TOPIC_KEYS, ConfigError, parse
from broker.config.properties import read_properties
from broker.config.views import BrokerConfig, Source, TopicConfig, topic_default


def test_every_default_passes_its_own_check_and_comes_back_from_its_text() -> None:
    for table in (BROKER_KEYS, TOPIC_KEYS):
        for row in table.values():
            assert len(row.doc) > 10, row.name
            if row.default is None:
                continue
            text = row.text(row.default)
            assert text is not None
            assert row.parse(text) == row.default, row.name


def test_topic_defaults_come_from_broker_keys_that_exist_and_agree() -> None:
    broker = BrokerConfig.from_mapping({})
    for name, sources in TOPIC_DEFAULTS.items():
        assert name in TOPIC_KEYS
        assert all(source in BROKER_KEYS for source, _ in sources)
        assert topic_default(broker, name)[0] == TOPIC_KEYS[name].default, name


def test_the_attributes_of_a_topic_have_kafkas_defaults() -> None:
    made = TopicConfig.of(BrokerConfig.from_mapping({}), {})
    plain = TopicConfig()
    for name in TopicConfig.__dataclass_fields__:
        if name not in ("values", "overrides"):
            assert getattr(made, name) == getattr(plain, name), name


def test_minutes_and_hours_stand_in_for_milliseconds_in_kafkas_order() -> None:
    def retention(**settings: str) -> int:
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        return TopicConfig.of(BrokerConfig.from_mapping(dotted), {}).retention_ms

    assert retention() == 168 * 3_600_000
    assert retention(log_retention_hours="2") == 7_200_000
    assert retention(log_retention_hours="2", log_retention_minutes="3") == 180_000
    assert retention(log_retention_minutes="3", log_retention_ms="-1") == -1


def test_a_topics_own_settings_win_and_are_kept_as_text() -> None:
    topic = TopicConfig.of(
        BrokerConfig.from_mapping({"log.retention.ms": "5"}),
        {"retention.ms": "9", "cleanup.policy": "compact,delete"},
    )
    assert (topic.retention_ms, topic.compacted, topic.deletes) == (9, True, True)
    assert topic.overrides == {"retention.ms": "9", "cleanup.policy": "compact,delete"}


def test_unknown_keys_name_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"did you mean log\.retention\.hours\?"):
        BrokerConfig.only_of_known({"log.retention.hour": "1"})
    with pytest.raises(ConfigError, match=r"did you mean retention\.bytes\?"):
        parse("retention.byte", "1", TOPIC_KEYS)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("log.retention.hours", "many", "type INT"),
        ("log.retention.hours", str(1 << 31), "type INT"),
        ("log.segment.bytes", "1000", "at least 1048576"),
        ("auto.create.topics.enable", "yes", "true or false"),
        ("log.cleanup.policy", "shred", "compact, delete"),
        ("log.message.timestamp.type", "Never", "CreateTime"),
        ("compression.gzip.level", "0", "between 1 and 9 or equal to -1"),
        ("log.segment.bytes", "2_000_000", "type INT"),
        ("log.cleaner.min.cleanable.ratio", "0_1", "type DOUBLE"),
        ("log.roll.ms", "0", "log.roll.ms must be greater than or equal to 1"),
        ("log.retention.minutes", "0", "log.retention.ms must be unlimited"),
        ("cordoned.log.dirs", "*,/a", "must not contain other values"),
    ],
)
def test_values_that_do_not_fit_are_refused_with_the_reason(
    name: str, text: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        BrokerConfig.from_mapping({name: text})
    assert caught.value.name == name
    if "requirement failed" not in str(caught.value):
        assert name in str(caught.value)


def test_a_star_means_all_log_directories() -> None:
    """`cordoned.log.dirs=*` was taken for a directory of this name, so nothing was kept free."""
    config = BrokerConfig.from_mapping({"log.dirs": "/a,/b/", "cordoned.log.dirs": "*"})
    assert config.cordoned_log_dirs == ("/a", "/b")
    named = BrokerConfig.from_mapping({"log.dirs": "/a,/b/", "cordoned.log.dirs": "/b/"})
    assert named.cordoned_log_dirs == ("/b",)


def test_a_file_of_kafkas_may_have_keys_that_nobody_here_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """They are kept, shown and warned of; what promises security says that it does not keep it.

    The broker did not start with `super.users` in its file, which the authorizer reads.
    """
    texts = {
        "super.users": "User:a", "sasl.plugin.key": "x", "my.plugin.key": "7",
        "num.partitions": "3",
    }  # fmt: skip
    with caplog.at_level("WARNING", "broker.config"):
        config = BrokerConfig.from_mapping(texts)
    assert config["num.partitions"] == 3
    assert config.unknown_keys() == dict.fromkeys(
        ("super.users", "sasl.plugin.key", "my.plugin.key"), Source.STATIC_BROKER
    )
    security, plugin = (record.getMessage() for record in caplog.records)
    assert "promises security" in security
    assert "my.plugin.key" in plugin


def test_a_key_without_effect_that_is_set_while_running_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not again when another key is altered."""
    config = BrokerConfig({"num.partitions": "3"})
    with caplog.at_level("WARNING", "broker.config"):
        first = config.with_dynamic({}, {"foo.bar": "1", "log.retention.ms": "5"})
        first.warn_of_new(config)
        first.with_dynamic({}, {"foo.bar": "2", "log.retention.ms": "6"}).warn_of_new(first)
    [said] = [record.getMessage() for record in caplog.records]
    assert said.startswith("Unknown configuration foo.bar")


def test_what_was_set_while_running_wins_in_kafkas_order() -> None:
    config = BrokerConfig.from_mapping({"message.max.bytes": "1000", "log.roll.hours": "3"})
    changed = config.with_dynamic(
        {"message.max.bytes": "2000", "log.retention.ms": "7"}, {"message.max.bytes": "3000"}
    )
    assert changed["message.max.bytes"] == 3000
    assert changed.sources("message.max.bytes") == [
        (Source.DYNAMIC_BROKER, "3000"),
        (Source.DYNAMIC_DEFAULT_BROKER, "2000"),
        (Source.STATIC_BROKER, "1000"),
        (Source.DEFAULT, "1048588"),
    ]
    assert changed.source("log.retention.ms") is Source.DYNAMIC_DEFAULT_BROKER
    assert changed.source("log.roll.hours") is Source.STATIC_BROKER
    assert changed.source("num.partitions") is Source.DEFAULT
    assert config["message.max.bytes"] == 1000


def test_the_value_of_a_password_is_never_shown() -> None:
    row = next(iter(BROKER_KEYS.values()))._replace(type=ConfigType.PASSWORD)
    assert row.sensitive
    assert not any(r.sensitive for r in TOPIC_KEYS.values())
    with pytest.raises(ConfigError) as caught:
        row._replace(check=lambda value: "too short").parse("secret")
    assert "secret" not in str(caught.value)


def test_log_dirs_and_node_id_have_their_older_names() -> None:
    config = BrokerConfig.from_mapping({"log.dir": "/x/", "broker.id": "7"})
    assert (config.log_dirs, config.node_id, config.metadata_log_dir) == (("/x",), 7, "/x")
    both = BrokerConfig.from_mapping({"log.dirs": "/a, /b", "log.dir": "/x", "node.id": "2"})
    assert (both.log_dirs, both.node_id) == (("/a", "/b"), 2)


def test_a_server_properties_of_kafka_is_read_as_it_is() -> None:
    text = """
    # The role of this server
    process.roles=broker,controller
    node.id : 3
    listeners=PLAINTEXT://:9092,\\
              CONTROLLER://:9093
    ! another comment
    log.dirs   /tmp/kraft\\u002dlogs
    num.partitions=
    num.partitions=6
    socket.send.buffer.bytes=102400
    ssl.keystore.location=C:\\\\keys\\\\server.jks
    remote.log.storage.system.enable=false
    """
    properties = read_properties(text)
    assert properties["listeners"] == "PLAINTEXT://:9092,CONTROLLER://:9093"
    assert properties["ssl.keystore.location"] == "C:\\keys\\server.jks"
    config = BrokerConfig.from_mapping(properties)
    assert config.node_id == 3
    assert config["process.roles"] == ("broker", "controller")
    assert config["num.partitions"] == 6
    assert config.log_dirs == ("/tmp/kraft-logs",)


@pytest.mark.parametrize("seed", range(20))
def test_any_text_is_properties_and_what_was_written_is_read_back(seed: int) -> None:
    print(f"seed={seed}")
    dice = random.Random(seed)
    noise = "".join(dice.choices("ab=: \t\\\n\r#!u0041é", k=300))
    assert all(isinstance(name, str) for name in read_properties(noise))
    written = {
        "".join(dice.choices(string.ascii_letters + ".", k=8)): "".join(
            dice.choices(string.printable.strip() + " ", k=12)
        ).strip()
        for _ in range(20)
    }
    escaped = "\n".join(
        f"{name}{dice.choice(['=', ' = ', ':', ' '])}"
        + value.replace("\\", "\\\\").replace("=", "\\=").replace(":", "\\:")
        for name, value in written.items()
    )
    assert read_properties(escaped) == written
