"""The composed settings: sources in their order, faults with their place, packages with their part."""

import re
from pathlib import Path

import pytest

from deploy.roles.run import console_settings
from deploy.settings.composed import SECTION_CLASSES, Settings, as_tables, load, with_changes
from deploy.settings.sources import SettingsError


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A settings file."""
    path = tmp_path / "databus.toml"
    path.write_text(
        '[site]\nname = "east"\ndata_dir = "data"\n\n[edge]\nport = 1001\n\n'
        "[broker]\nlog.segment.bytes = 1048576\nauto.create.topics.enable = false\n"
    )
    return path


def test_the_file_gives_way_to_variables_and_these_to_flags(config: Path):
    """Later wins."""
    environment = {"DATABUS_EDGE_PORT": "1002", "DATABUS_CONSOLE_PORT": "2002"}
    settings = load(str(config), ["edge.port=1003"], environment)
    assert (settings.site.name, settings.edge.port, settings.console.port) == ("east", 1003, 2002)


def test_a_relative_data_directory_hangs_beside_the_file_that_named_it(config: Path):
    """Not below the directory the command was typed in."""
    assert load(str(config), environment={}).site.data_path == config.parent / "data"


def test_the_broker_gets_kafkas_own_names_and_texts(config: Path):
    """As in a server.properties."""
    assert load(str(config), environment={}).broker == {
        "log.segment.bytes": "1048576", "auto.create.topics.enable": "false",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[edge]\n\nprot = 3\n",
            r"line 3: there is no key of \[edge\] 'prot'; did you mean 'port'",
        ),
        ('[edge]\nport = "many"\n', r"line 2: edge\.port: Expected `int`"),
        ("[edge]\nport = 99999999\n", r"line 2: edge\.port: Expected `int` <= 65535"),
        ('[site]\nzone = "Mars/Olympus"\nname = "x"\n', r"line 2: zone: .*'Mars/Olympus'"),
        ("[egde]\nport = 3\n", r"line 2: there is no section 'egde'; did you mean 'edge'"),
        ("[broker]\nlog.segment.byte = 3\n", r"line 2: .*log\.segment\.bytes"),
        ('[broker]\nlog.segment.bytes = "x"\n', r"line 2: .*log\.segment\.bytes"),
        ("port = 3\n", r"line 1: 'port' stands outside a table"),
        ("[edge\n", r"at line 1"),
    ],
)
def test_a_fault_names_its_line_and_the_nearest_name(tmp_path: Path, text: str, told: str):
    """What the person at the keyboard needs."""
    path = tmp_path / "databus.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=told):
        load(str(path), environment={})


@pytest.mark.parametrize(
    ("flag", "told"),
    [
        ("edge.max_body_bytes=-1", "Expected `int` >= 1"),
        ("edge.spool_segment_bytes=0", "Expected `int` >= 1"),
        ("edge.host=", "length >= 1"),
        ("edge.trusted_proxies=10.0.0.5,proxy", "'proxy' is no address"),
        ("console.trusted_proxies=1.2.3.4/99", "is no address"),
        ("console.session_hours=-3", "Expected `int` >= 1"),
        ("console.reader_threads=0", "Expected `int` >= 1"),
        ("streams.ingest_trigger_ms=-5", "Expected `int` >= 0"),
        ("streams.quality_gap_share=1.5", "Expected `float` <= 1"),
        ('streams.applications=["ingest", "nope"]', "Invalid enum value 'nope'"),
        ("notices.give_up_hours=0", "Expected `int` >= 1"),
        ("notices.timeout_s=nan", "Expected `float`"),
        ("notices.webhook_url=example.org", "begins with http://"),
        ("pictures.write_timeout_ms=-1", "Expected `int` >= 1"),
        ("retention.kinds_days.car=3", "'car' is no kind"),
        ("retention.books_days=-1", "Expected `int` >= 0"),
        ("site.keep_days=-4", "Expected `int` >= 0"),
        ("site.language=fr", "Invalid enum value 'fr'"),
        ("site.name=", "length >= 1"),
        ("bus.bootstrap_servers=", "length >= 1"),
        ("city.hour=99", "Expected `float` <= 24"),
        ("city.face_share=7", "Expected `float` <= 1"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused(flag: str, told: str):
    """Regression: with these the product started and did nothing, too much, or something else."""
    with pytest.raises(SettingsError, match=re.escape(told)) as error:
        load(flags=[flag], environment={})
    assert str(error.value).startswith(f"--set {flag.partition('=')[0]}: ")


def test_a_fault_in_a_variable_or_a_flag_names_it():
    """There is no line to name."""
    with pytest.raises(SettingsError, match=r"variable DATABUS_EDGE_PORT: edge\.port: Expected"):
        load(environment={"DATABUS_EDGE_PORT": "many"})
    with pytest.raises(SettingsError, match=r"--set city\.sed: .*did you mean 'seed'"):
        load(flags=["city.sed=4"], environment={})


def test_a_settings_file_that_is_named_but_missing_is_a_fault(tmp_path: Path):
    """Only the usual place may be empty."""
    with pytest.raises(SettingsError, match="there is no settings file"):
        load(str(tmp_path / "none.toml"), environment={})


def test_a_child_process_gets_the_same_settings_by_its_arguments(config: Path):
    """The words that reproduce them, later changes included."""
    first = load(str(config), ["edge.port=1003"], {})
    changed = with_changes(first, {"city.rate": 7.5})
    assert changed.arguments == (
        "--config", str(config), "--set", "edge.port=1003", "--set", "city.rate=7.5",
    )  # fmt: skip
    assert (changed.city.rate, changed.edge.port) == (7.5, 1003)


def test_the_settings_in_force_read_back_as_the_same_settings(tmp_path: Path):
    """Every section, every key: what `config` prints could be a databus.toml."""
    settings = load(environment={}, flags=["broker.log.segment.bytes=1048576"])
    tables = as_tables(settings)
    assert set(tables) == {"broker", *SECTION_CLASSES}
    flags = [
        f"{room}.{key}={value}"
        for room, table in tables.items()
        for key, value in table.items()
        if isinstance(value, str | int | float) and value != ""
    ]
    assert plain(load(environment={}, flags=flags)) == plain(settings)


def plain(settings: Settings) -> dict:
    return as_tables(settings)


def test_the_console_looks_for_pictures_where_the_edge_keeps_them(tmp_path: Path) -> None:
    """It serves them behind its own log-in; before, it looked into its data directory only."""
    flags = [f"site.data_dir={tmp_path}"]
    usual = console_settings(load(None, flags, {}))
    assert usual.pictures == (tmp_path / "pictures").as_uri()
    far = load(None, [*flags, "pictures.url=s3://city/pictures"], {})
    assert console_settings(far).pictures == "s3://city/pictures"
    own = load(None, [*flags, "pictures.url=s3://a/b", "console.pictures=/mnt/b"], {})
    assert console_settings(own).pictures == "/mnt/b"


@pytest.mark.parametrize(
    "flags",
    [
        ['edge.tokens={"server-1": "secret", "server-2": "other"}'],
        ['edge.tokens={server-1 = "secret", server-2 = "other"}'],
        ["edge.tokens.server-1=secret", "edge.tokens.server-2=other"],
        ['edge.tokens={"server-1": "old"}', "edge.tokens.server-2=other", "edge.tokens.server-1=secret"],
    ],
)  # fmt: skip
def test_a_table_can_be_given_on_the_command_line(flags: list[str]) -> None:
    """As JSON, as the settings file writes it, or row by row."""
    settings = load(None, flags, {})
    assert settings.edge.tokens == {"server-1": "secret", "server-2": "other"}
    assert load(None, settings.arguments[1::2], {}).edge.tokens == settings.edge.tokens


def test_keys_of_kafkas_clients_may_be_written_as_kafka_writes_them(tmp_path: Path) -> None:
    """With their dots, in a file or as flags; a number and a truth value become Kafka's text."""
    wanted = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.password": "p",
              "socket.timeout.ms": "9000", "socket.keepalive.enable": "true"}  # fmt: skip
    path = tmp_path / "databus.toml"
    path.write_text(
        '[bus.librdkafka]\nsecurity.protocol = "SASL_SSL"\n"sasl.mechanism" = "PLAIN"\n'
        'sasl.password = "p"\nsocket.timeout.ms = 9000\nsocket.keepalive.enable = true\n'
        '[bus.java]\nfetch.max.bytes = 1\n'
    )
    assert load(str(path), [], {}).bus.librdkafka == wanted
    assert load(str(path), [], {}).bus.java == {"fetch.max.bytes": "1"}
    flags = [f"bus.librdkafka.{key}={value}" for key, value in wanted.items()]
    assert load(None, flags, {}).bus.librdkafka == wanted


def test_what_sparks_connector_cannot_be_told_is_refused_with_its_place(tmp_path: Path) -> None:
    """At the start of every process, not in a driver's log."""
    path = tmp_path / "databus.toml"
    path.write_text('[bus]\nlibrdkafka = {"ssl.cipher.suites" = "A"}\n')
    with pytest.raises(SettingsError, match=r"line 2: librdkafka: ssl\.cipher\.suites"):
        load(str(path), [], {})


@pytest.mark.parametrize("flag", ["edge.tokens={secret", "edge.tokens=secret", "edge.port.x=1"])
def test_what_is_no_table_is_refused_with_its_place(flag: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(SettingsError, match=r"--set edge\."):
        load(None, [flag], {})
