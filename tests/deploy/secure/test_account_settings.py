"""What a process of a secured site has besides the settings of all, and that nobody else gets it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bus.contracts.access import ACCOUNTS
from deploy.cluster.layout import ControllerKind, plan
from deploy.cluster.processes import cluster_processes
from deploy.cluster.zookeeper import ensemble_stores
from deploy.demo.cli import _with_data_in
from deploy.errors import OperatorError
from deploy.roles.table import DEMO, children
from deploy.secure.account_settings import as_account, as_command, as_role
from deploy.secure.broker_keys import ConversionStage
from deploy.secure.conversion_file import write_stage
from deploy.secure.init import init
from deploy.secure.layout import IN_FORCE
from deploy.settings.composed import Settings, load, with_changes
from deploy.settings.shown import masked_tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site") / "secure"
    init(place, site="a", brokers=1, places=["localhost"], passphrase="long enough a one")
    return place


def secured(folder: Path, *flags: str) -> Settings:
    where = [f"site.data_dir={folder.parent}", f"security.folder={folder.name}"]
    return load(None, [*where, *flags], environment={})


def test_an_open_site_has_no_accounts(tmp_path: Path) -> None:
    settings = load(None, [f"site.data_dir={tmp_path}"], environment={})
    for one in (as_account(settings, "edge"), as_role(settings, "broker"), as_command(settings, "topics")):
        assert one is settings


@pytest.mark.parametrize("role", ["edge", "streams", "streams-watchlist", "dispatcher", "console", "watch", "city"])
def test_a_role_logs_in_as_itself(role: str, folder: Path) -> None:
    login = as_role(secured(folder), role).bus.librdkafka
    assert login["sasl.username"] == role.removesuffix("-watchlist")
    assert Path(login["ssl.ca.location"]).read_text().startswith("-----BEGIN CERTIFICATE")


def test_a_command_is_run_as_the_operator_and_a_backup_as_itself(folder: Path) -> None:
    assert as_command(secured(folder), "topics").bus.librdkafka["sasl.username"] == "operator"
    assert as_command(secured(folder), "backup").bus.librdkafka["sasl.username"] == "backup"


def test_keys_of_the_settings_that_the_account_does_not_name_stay(folder: Path) -> None:
    own = as_account(secured(folder, "bus.librdkafka.socket.keepalive.enable=true"), "edge")
    assert own.bus.librdkafka["socket.keepalive.enable"] == "true"
    assert own.bus.bootstrap_servers == "127.0.0.1:9092"


def test_an_account_stays_when_settings_are_changed_and_its_secrets_do_not_become_words(folder: Path) -> None:
    """Words are what children are started with, and what everybody on a machine reads."""
    own = with_changes(as_account(secured(folder), "operator"), {"city.rate": 7.5})
    assert own.city.rate == 7.5
    password = own.bus.librdkafka["sasl.password"]
    assert password
    processes = children(own, DEMO)
    processes += cluster_processes(own, plan(folder.parent, brokers=1, controller=ControllerKind.KRAFT))
    secrets = {password, own.security.page_token}
    for child in processes:
        texts = [*child.command, *child.environment.values()]
        assert not [text for text in texts for secret in secrets if secret in text], child.name
    shown = str(masked_tables(own))
    assert not [secret for secret in secrets if secret in shown]


@pytest.mark.parametrize("stage", ConversionStage)
def test_a_process_logs_in_from_its_stage_on_and_a_page_asks_once_all_have_the_token(
    stage: ConversionStage, tmp_path: Path
) -> None:
    place = tmp_path / "secure"
    init(place, site="a", brokers=1, places=["localhost"], passphrase="long enough a one")
    write_stage(place, stage)
    edge, broker = as_role(secured(place), "edge"), as_role(secured(place), "broker")
    logs_in = stage >= ConversionStage.PROCESSES
    assert bool(edge.bus.librdkafka) is logs_in
    assert bool(edge.security.folder) is logs_in
    assert bool(as_command(secured(place), "topics").bus.librdkafka) is logs_in
    assert bool(broker.security.page_token) is (stage is ConversionStage.CLOSED)
    assert bool(broker.security.folder) is (stage is not ConversionStage.OPEN)
    assert ("CLIENTS://" in broker.broker.get("listeners", "")) is (stage is not ConversionStage.OPEN)


def test_nobody_starts_before_the_rights_are_in_force(folder: Path) -> None:
    by_name = {child.name: child for child in children(secured(folder), DEMO)}
    assert by_name.pop("broker").ready_line == IN_FORCE
    assert all("broker" in child.needs for child in by_name.values())


@pytest.mark.parametrize("stage", list(ConversionStage))
def test_while_a_site_is_converted_the_way_to_zookeeper_is_that_of_its_settings(
    stage: ConversionStage, folder: Path, tmp_path: Path
) -> None:
    """Also once it is closed: its ensemble has no port of TLS."""
    here = tmp_path / "secure"
    shutil.copytree(folder, here)
    write_stage(here, stage)
    own = "broker.zookeeper.ssl.truststore.type=PEM"
    broker = as_role(secured(here, "broker.zookeeper.connect=127.0.0.1:2181", own), "broker").broker
    assert {key for key in broker if key.startswith("zookeeper.")} == {
        "zookeeper.connect", "zookeeper.ssl.truststore.type"
    }  # fmt: skip
    assert as_account(secured(here), "console").console.zookeeper_certificate_pem == ""
    assert ensemble_stores(here) is None


def test_a_closed_site_shows_its_certificates_to_zookeeper(folder: Path) -> None:
    broker = as_role(secured(folder, "broker.zookeeper.connect=127.0.0.1:2181"), "broker").broker
    assert broker["zookeeper.ssl.client.enable"] == "true"
    assert Path(broker["zookeeper.ssl.keystore.location"]).is_file()
    assert Path(as_account(secured(folder), "console").console.zookeeper_certificate_pem).is_file()
    assert ensemble_stores(folder) is not None


@pytest.mark.parametrize("is_ours", [True, False])
def test_commands_about_brokers_show_zookeeper_what_the_broker_shows(
    is_ours: bool, folder: Path, tmp_path: Path
) -> None:
    """Where this machine has one's certificate; else there is nothing to be shown."""
    here = tmp_path / "secure"
    shutil.copytree(folder, here)
    if not is_ours:
        shutil.rmtree(here / "nodes")
    settings = secured(here, "broker.zookeeper.connect=127.0.0.1:2181")
    broker = as_command(settings, "broker").broker
    assert broker["zookeeper.connect"] == "127.0.0.1:2181"
    assert ("zookeeper.ssl.keystore.location" in broker) is is_ours
    assert not any(name.startswith("ssl.") or name == "listeners" for name in broker)
    assert "zookeeper.ssl.keystore.location" not in as_command(settings, "topics").broker


def test_a_broker_has_the_keys_of_its_node(folder: Path) -> None:
    broker = as_role(secured(folder), "broker").broker
    assert Path(broker["ssl.keystore.location"]).is_file()
    assert broker["super.users"] == "User:CN=broker-1;User:operator"
    assert "PLAINTEXT" not in broker["listeners"]


def test_a_missing_file_is_named_with_what_makes_it(folder: Path) -> None:
    with pytest.raises(OperatorError, match=r"accounts/nobody\.toml.*secure init"):
        as_account(secured(folder), "nobody")
    with pytest.raises(OperatorError, match=r"nodes/broker-7/broker\.toml"):
        as_role(secured(folder, "broker.node.id=7"), "broker")


def test_a_file_that_others_may_read_is_refused(folder: Path) -> None:
    path = folder / "accounts" / "watch.toml"
    path.chmod(0o640)
    try:
        with pytest.raises(OperatorError, match="chmod 600"):
            as_account(secured(folder), "watch")
    finally:
        path.chmod(0o600)


def test_a_key_that_there_is_not_is_named_with_its_file(folder: Path) -> None:
    path = folder / "accounts" / "city.toml"
    before = path.read_text()
    path.write_text(before.replace("[security]", "[security]\ncolour = 1"))
    try:
        with pytest.raises(OperatorError, match="colour"):
            as_account(secured(folder), "city")
    finally:
        path.write_text(before)


def test_every_account_of_the_table_can_be_laid_over(folder: Path) -> None:
    for name in ACCOUNTS:
        assert as_account(secured(folder), name).security.page_token


def test_a_demo_says_with_which_words_other_commands_reach_its_closed_bus(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the data directory alone they would speak in plain, and be told of a closed connection."""
    below = folder.parent / "demo" / "secured"
    _with_data_in(with_changes(secured(folder), {"security.folder": folder}), below)
    said = capsys.readouterr().err.partition("see it with ")[2].split()
    again = load(None, [f"site.data_dir={said[said.index('--data-dir') + 1]}", said[said.index("--set") + 1]])
    assert again.site.data_path == below
    assert as_command(again, "topics").bus.librdkafka["sasl.username"] == "operator"
