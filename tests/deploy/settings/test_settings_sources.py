"""Where settings come from, and the error when one is wrong."""

from pathlib import Path

import pytest

from deploy.settings.composed import load
from deploy.settings.sources import (
    SettingsError,
    from_environment,
    from_flags,
    from_toml,
    unknown,
)

FILE = """
[site]
name = "east"

[edge]
port = 8650   # fixed

[broker]
log.segment.bytes = 1048576
"auto.create.topics.enable" = false
"""


def test_every_value_of_a_file_knows_its_line():
    """Keys, dotted keys and quoted keys alike."""
    entries = {(e.section, e.key): e for e in from_toml(Path("databus.toml"), FILE)}
    assert entries["site", "name"].where == "databus.toml line 3"
    assert entries["edge", "port"].where == "databus.toml line 6"
    assert entries["broker", "log.segment.bytes"].value == 1048576
    assert entries["broker", "log.segment.bytes"].where == "databus.toml line 9"
    assert entries["broker", "auto.create.topics.enable"].where == "databus.toml line 10"


def test_a_file_that_is_no_toml_is_reported_with_its_line():
    """tomllib's own words carry it."""
    with pytest.raises(SettingsError, match="line 2"):
        from_toml(Path("databus.toml"), "[edge]\nport = = 3\n")


def test_a_value_outside_a_table_is_reported_with_its_line():
    """There is one section per package."""
    with pytest.raises(SettingsError, match="line 2: 'port' stands outside a table"):
        from_toml(Path("databus.toml"), "\nport = 3\n")


def test_variables_name_section_and_key_and_the_set_up_has_its_own():
    """For the broker the underscore stands for the dot."""
    environment = {
        "DATABUS_EDGE_SPOOL_BYTES": "9",
        "DATABUS_BROKER_LOG_SEGMENT_BYTES": "7",
        "DATABUS_CACHE": "/elsewhere",
        "HOME": "/",
    }
    entries = from_environment(environment, ("edge", "broker"))
    assert [(e.section, e.key, e.value) for e in entries] == [
        ("broker", "log.segment.bytes", "7"),
        ("edge", "spool_bytes", "9"),
    ]


def test_a_variable_of_an_unknown_section_names_the_nearest_section():
    """A misspelt variable must not be ignored."""
    with pytest.raises(
        SettingsError, match=r"DATABUS_EGDE_PORT: there is no section 'egde'; did you mean 'edge'"
    ):
        from_environment({"DATABUS_EGDE_PORT": "1"}, ("edge", "console"))


def test_a_flag_is_section_dot_key_equals_value():
    """Other forms get an error with the right form; values may contain equals signs."""
    (entry,) = from_flags(["store.url=file:///a=b"])
    assert (entry.section, entry.key, entry.value) == ("store", "url", "file:///a=b")
    for wrong in ("edge", "edge.port", "port=3", "edge.=3"):
        with pytest.raises(SettingsError, match=r"section\.key=value"):
            from_flags([wrong])


def test_lists_and_tables_can_be_given_as_json_in_texts():
    """`--set console.health={"broker": "http://…"}`."""
    entries = from_flags(['console.health={"a": "b"}', "edge.port=8650", "city.name=[odd"])
    assert [e.plain for e in entries] == [{"a": "b"}, "8650", "[odd"]


def test_an_unknown_name_far_from_all_lists_what_there_is():
    """No silly guess."""
    assert unknown("role", "zzz", ["edge", "city"]) == "there is no role 'zzz'; known: city, edge"


def test_any_line_soup_is_read_or_refused_with_a_settings_error(dice):
    """Property: the reader raises nothing but its own error."""
    pieces = [
        "[edge]",
        "[",
        "]",
        "port",
        "=",
        "8650",
        "\n",
        '"',
        "'",
        "#",
        " ",
        ".",
        "[[a]]",
        "é",
        "true",
    ]
    for _ in range(2000):
        text = "".join(dice.choices(pieces, k=dice.randrange(1, 14)))
        try:
            from_toml(Path("f"), text)
        except SettingsError:
            continue


@pytest.mark.parametrize(
    "flag",
    ["security.page_token=hunter2 hunter2", "console.accounts_secret=hunter2", "edge.tokens=hunter2",
     "bus.librdkafka.sasl.password=hunter2", "notices.webhook_secret=hunter2", "edge.toakens=hunter2",
     'notices.recipients={"north": {"webhook_secret": "hunter2"}}', "broker.metrics.token=hunter2 hunter2"],
)  # fmt: skip
@pytest.mark.parametrize("way", ["flag", "file", "variable"])
def test_what_is_said_of_a_setting_never_repeats_its_value(
    flag: str, way: str, tmp_path: Path
) -> None:
    """Regression: the sentence of a flag had the whole flag, and logs keep such sentences."""
    name, _, value = flag.partition("=")
    section, _, key = name.partition(".")
    path = tmp_path / "databus.toml"
    path.write_text(f"[{section}]\n'{key}' = '''{value}'''\n" if way == "file" else "")
    variable = f"DATABUS_{name.upper().replace('.', '_')}"
    flags, environment = [flag] * (way == "flag"), {variable: value} if way == "variable" else {}
    with pytest.raises(SettingsError) as refused:
        load(str(path), flags, environment)
    assert "hunter2" not in str(refused.value)


def test_a_flag_without_a_value_is_not_repeated_either():
    with pytest.raises(SettingsError, match=r"section\.key=value") as refused:
        from_flags(["edge.tokens.server-1 hunter2"])
    assert "hunter2" not in str(refused.value)
