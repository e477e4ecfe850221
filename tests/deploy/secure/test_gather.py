"""What `secure check` reads: files, certificates and accounts of a machine whose broker does not answer. A running
site is in tests/processes/test_secured_site.py."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from deploy.cli import mount_commands
from deploy.secure.broker_keys import KRAFT_AUTHORIZER, ConversionStage
from deploy.secure.check.checks import findings
from deploy.secure.check.gather import gather
from deploy.secure.conversion_file import write_stage
from deploy.settings.composed import Settings, load
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from tests.certificates import Authority

NOBODY = "127.0.0.1:1"
TOKEN = "a-long-random-text-of-nobody"
SECRET = "hunter2-hunter2-hunter2"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of the product's data, as a first start leaves it."""
    (tmp_path / "var").mkdir()
    return tmp_path


def settings_of(folder: Path, text: str = "", flags: tuple[str, ...] = (), mode: int = 0o600) -> Settings:
    path = folder / "databus.toml"
    path.write_text(
        f'[site]\ndata_dir = "{folder / "var"}"\n[bus]\nbootstrap_servers = "{NOBODY}"\n'
        f'[security]\npage_token = "{TOKEN}"\n[broker]\n"authorizer.class.name" = "{KRAFT_AUTHORIZER}"\n{text}'
    )
    path.chmod(mode)
    return load(str(path), flags, {})


def test_what_could_not_be_asked_is_said_and_is_no_finding(folder: Path) -> None:
    facts = gather(settings_of(folder))
    assert findings(facts) == []
    [sentence] = facts.not_asked
    assert NOBODY in sentence
    assert facts.acls is None
    assert [one.where for one in facts.brokers] == ["[broker] of the settings"]


def test_a_settings_file_is_looked_at_if_it_holds_secrets(folder: Path) -> None:
    settings = settings_of(folder, mode=0o644)
    assert [(one.check, one.where) for one in findings(gather(settings))] == [
        ("readable-secret", str(folder / "databus.toml"))
    ]


def test_certificates_of_every_form_are_read_and_private_keys_are_looked_at(folder: Path) -> None:
    """PEM and PKCS#12; of listeners and of our own clients."""
    authority = Authority()
    soon, later = authority.signed("soon", left=timedelta(days=10)), authority.signed("later", left=timedelta(days=90))
    soon_pem, later_pem = soon.store(folder, "soon"), later.store(folder, "later")
    packed = folder / "packed.p12"
    packed.write_bytes(authority.signed("ended", left=timedelta(days=-1)).pkcs12(SECRET))
    for path in (soon_pem, later_pem, packed):
        path.chmod(0o600)
    later_pem.chmod(0o640)
    broken = folder / "broken.pem"
    broken.write_bytes(b"no certificate")
    facts = gather(settings_of(folder, f"""
"listener.name.a.ssl.keystore.location" = "{soon_pem}"
"listener.name.b.ssl.keystore.location" = "{packed}"
"listener.name.b.ssl.keystore.password" = "{SECRET}"
"ssl.keystore.location" = "{later_pem}"
"ssl.truststore.location" = "{broken}"
[mirror]
source_librdkafka = {{"ssl.ca.location" = "{authority.file(folder)}"}}
"""))  # fmt: skip
    assert {(one.check, one.where) for one in findings(facts)} == {
        ("ending-certificate", f"{soon_pem} (CN=soon)"), ("ending-certificate", f"{packed} (CN=ended)"),
        ("readable-secret", str(later_pem)),
    }  # fmt: skip
    assert {one.subject for one in facts.certificates} == {"CN=soon", "CN=later", "CN=ended", "CN=authority"}
    assert any(str(broken) in sentence for sentence in facts.not_asked)
    assert SECRET not in str(facts.not_asked)


def test_accounts_of_the_console_are_tried_with_what_everybody_tries(folder: Path) -> None:
    settings = settings_of(folder)
    accounts = AccountStore(settings.site.data_path)
    for name, password in (("chen", "password123"), ("li-ming-1", "li-ming-1"), ("wang", SECRET)):
        accounts.add(name, password, [AccountRole.VIEWER])
    accounts.close()
    found = {one.where for one in findings(gather(settings))}
    assert found == {"the console's account chen", "the console's account li-ming-1"}


def test_secrets_of_the_command_line_are_named_and_other_settings_are_not(folder: Path) -> None:
    flags = (
        f"edge.tokens.server-1={SECRET}", "edge.port=8700", f"console.edge_token={SECRET}",
        f"broker.listener.name.a.ssl.key.password={SECRET}", "bus.librdkafka.security.protocol=SSL",
        "broker.num.io.threads=3", f'notices.recipients={{"a": {{"command": ["x"], "webhook_url": "https://{SECRET}"}}}}',
    )  # fmt: skip
    facts = gather(settings_of(folder, flags=flags))
    assert set(facts.given_secrets) == {
        "edge.tokens.server-1", "console.edge_token", "broker.listener.name.a.ssl.key.password", "notices.recipients",
    }  # fmt: skip
    assert SECRET not in str(findings(facts))


def test_a_folder_that_no_setting_names_is_told(folder: Path) -> None:
    (folder / "var" / "secure").mkdir()
    assert [one.check for one in findings(gather(settings_of(folder)))] == ["unused-folder"]


@pytest.mark.parametrize("stage", [None, *ConversionStage])
def test_a_site_that_is_or_was_converted_is_known_as_one(folder: Path, stage: ConversionStage | None) -> None:
    """Its way to ZooKeeper is as it was before."""
    secure = folder / "var" / "secure"
    secure.mkdir()
    if stage is not None:
        write_stage(secure, stage)
    facts = gather(settings_of(folder, flags=(f"security.folder={secure}",)))
    assert facts.converted_folder == ("" if stage is None else str(secure))


@pytest.mark.parametrize(("flags", "status"), [((), 0), (("edge.host=0.0.0.0",), 1)])
def test_the_command_ends_with_one_where_a_door_stands_open(
    folder: Path, flags: tuple[str, ...], status: int
) -> None:
    app = typer.Typer()
    mount_commands(app, lambda row: row.name == "secure")
    settings = settings_of(folder, flags=flags)
    told = CliRunner().invoke(app, ["secure", "check"], obj=settings)
    assert told.exit_code == status
    assert f"not asked: the brokers at {NOBODY}" in told.output
    as_json = CliRunner().invoke(app, ["secure", "check", "--json"], obj=settings)
    assert as_json.exit_code == status
    found = json.loads(as_json.stdout)["findings"]
    assert [one["check"] for one in found] == ["edge-for-everybody", "plain-edge"] * status
    assert all(one["remedy"] in told.output for one in found)


def test_the_file_of_spark_s_own_keys_is_read_and_must_be_its_owners(folder: Path) -> None:
    keys = folder / "spark.conf"
    text = f'[streams]\nmaster = "spark://10.0.0.8:7077"\nproperties_file = "{keys}"\n'
    lost = gather(settings_of(folder, text))
    assert [one.check for one in findings(lost)] == ["open-spark"]
    assert [one for one in lost.not_asked if "properties_file" in one]
    keys.write_text(
        f"spark.authenticate true\nspark.authenticate.secret {SECRET}\nspark.network.crypto.enabled=true\n"
    )
    keys.chmod(0o644)
    found = findings(gather(settings_of(folder, text)))
    assert [(one.check, one.where) for one in found] == [("readable-secret", str(keys))]
    assert SECRET not in str(found)
    keys.chmod(0o600)
    assert findings(gather(settings_of(folder, text))) == []
