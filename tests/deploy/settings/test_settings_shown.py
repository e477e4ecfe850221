"""What `./databus config` prints: every setting, and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import typer
from msgspec import inspect
from typer.testing import CliRunner

from deploy.cli import mount_commands
from deploy.settings.composed import SECTION_CLASSES, as_tables, load
from deploy.settings.shown import masked_tables
from deploy.settings.sources import SettingsError

NOT_TO_BE_READ = "hunter2"


def secret_settings() -> dict[str, bool]:
    """`section.key` of all settings marked as secret -> whether it is a table of secrets."""
    found = {}
    for room, cls in SECTION_CLASSES.items():
        kinds = inspect.type_info(cls)
        assert isinstance(kinds, inspect.StructType)
        for field in kinds.fields:
            table = isinstance(field.type, inspect.DictType)
            kind = field.type.value_type if isinstance(field.type, inspect.DictType) else field.type
            if isinstance(kind, inspect.Metadata) and (kind.extra or {}).get("secret"):
                found[f"{room}.{field.name}"] = table
    return found


def test_what_is_named_like_a_secret_is_marked_as_one() -> None:
    """A new token or password that is not marked would be printed."""
    names = {
        f"{room}.{field.name}"
        for room, cls in SECTION_CLASSES.items()
        for field in msgspec.structs.fields(cls)
        if any(word in field.name for word in ("token", "password", "secret", "webhook_url", "sms_"))
        and field.name != "sms_method"
    }
    # Passwords are among keys that Kafka names.
    of_kafka = {f"bus.{key}" for key in ("librdkafka", "java")}
    of_kafka |= {f"mirror.{side}_librdkafka" for side in ("source", "target")}
    of_kafka |= {f"{sender}.second_site_librdkafka" for sender in ("edge", "city")}
    assert names | of_kafka == set(secret_settings())


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_no_secret_is_printed(tmp_path: Path, as_json: bool) -> None:
    """The command itself, with every secret set in a file and one of Kafka's."""
    tables: dict[str, list[str]] = {}
    for name, table in secret_settings().items():
        room, _, key = name.partition(".")
        secret = f'"http://host/{NOT_TO_BE_READ}/long-enough-to-derive-a-key-from"'
        value = f"{{server-1 = {secret}}}" if table else secret
        tables.setdefault(room, []).append(f"{key} = {value}")
    tables["pictures"] = [f'url = "s3://me:{NOT_TO_BE_READ}@host/pictures"']
    tables["broker"] = [f'listener.name.tls.ssl.key.password = "{NOT_TO_BE_READ}"']
    path = tmp_path / "databus.toml"
    path.write_text("".join(f"[{room}]\n" + "\n".join(rows) + "\n" for room, rows in tables.items()))
    app = typer.Typer()
    mount_commands(app, lambda row: row.name == "config")
    words = ["config", *["--json"] * as_json]
    done = CliRunner().invoke(app, words, obj=load(str(path), environment={}))
    assert done.exit_code == 0
    assert NOT_TO_BE_READ not in done.output
    assert done.stdout.count("***") == len(secret_settings()) + 2
    assert "server-1" in done.stdout
    assert "s3://me:***@host/pictures" in done.stdout
    if as_json:
        assert set(json.loads(done.stdout)) == {"broker", *SECTION_CLASSES}


def test_no_secret_of_a_recipient_is_printed(tmp_path: Path) -> None:
    """Regression: what lies in a table of tables was printed."""
    path = tmp_path / "databus.toml"
    secret = f"https://chat.example/{NOT_TO_BE_READ}"
    path.write_text(
        f'[notices.recipients.north]\nwebhook_url = "{secret}"\nwebhook_secret = "{NOT_TO_BE_READ}"\n'
    )
    shown = masked_tables(load(str(path), environment={}))
    assert NOT_TO_BE_READ not in str(shown)
    north = shown["notices"]["recipients"]["north"]
    assert (north["webhook_url"], north["webhook_secret"], north["mail_to"]) == ("***", "***", ())


def test_a_secret_that_is_not_set_is_shown_as_empty() -> None:
    """It shows an operator whether a secret is set; all other values are printed unchanged."""
    settings = load(environment={}, flags=["broker.metrics.port=-1", "broker.node.id=3"])
    assert masked_tables(settings) == as_tables(settings)


@pytest.mark.parametrize(
    "flag",
    ["city.edge_token=***", "edge.tokens.server-1=***", 'edge.tokens={"a": "***"}',
     "pictures.url=s3://me:***@host/p"],
)  # fmt: skip
def test_the_stars_are_not_taken_for_a_secret(flag: str) -> None:
    """Otherwise printed settings used as a file would admit every client that sends stars."""
    with pytest.raises(SettingsError, match="shows a secret"):
        load(environment={}, flags=[flag])
