"""What docs/security.md says of lost keys and passwords, as an operator does it with a broker that runs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT, run

import msgspec
import pytest

from bus.contracts.access import ACCOUNTS
from bus.contracts.topics import TOPICS
from bus.errors import BusError, ErrorCode
from bus.settings import BusSettings
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.secure.certificate_rotation import certificate_state
from deploy.secure.init import init
from deploy.secure.layout import AUTHORITY_CERTIFICATE, AUTHORITY_KEY, IN_FORCE, account_path
from deploy.secure.recovery import lost_files, recover_accounts
from deploy.servers.databus_cluster import free_port
from tests.deploy.secure.test_apply import WAIT_S, BrokerPlace, new_folder, running, topics_seen

NEW_PASSPHRASE = "another one that is long enough"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    init(tmp_path / "secure", site="a", brokers=2, places=["localhost"], passphrase="long enough a one")
    return tmp_path / "secure"


def all_files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_where_nothing_is_lost_nothing_is_changed(folder: Path) -> None:
    before = all_files(folder)
    assert recover_accounts(folder) == ()
    assert all_files(folder) == before
    assert lost_files(folder).has_key


def test_lost_and_empty_accounts_are_made_again_and_all_others_stay(folder: Path) -> None:
    """A disk that was full has left an empty file."""
    account_path(folder, "operator").unlink()
    account_path(folder, "edge").write_bytes(b"")
    before = all_files(folder)
    assert set(recover_accounts(folder)) == {"operator", "edge"}
    after = all_files(folder)
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {account_path(folder, "operator"), account_path(folder, "edge")}
    assert all(path.stat().st_mode & 0o077 == 0 for path in changed)
    assert not lost_files(folder).accounts


def test_the_token_of_pages_stays_as_long_as_any_file_has_it(folder: Path) -> None:
    for name in ACCOUNTS:
        account_path(folder, name).unlink()
    assert set(recover_accounts(folder)) == set(ACCOUNTS)
    tokens = {
        line for path in folder.rglob("*.toml") for line in path.read_text().splitlines() if "page_token" in line
    }
    assert len(tokens) == 1


def test_a_folder_of_which_nothing_is_left_is_made_anew(folder: Path) -> None:
    for path in (*(folder / "accounts").iterdir(), *(folder / "nodes").glob("*/*.toml")):
        path.unlink()
    with pytest.raises(OperatorError, match="secure init"):
        recover_accounts(folder)


def test_a_lost_node_and_a_lost_key_are_named(folder: Path) -> None:
    (folder / "nodes" / "broker-2" / "broker.pem").unlink()
    (folder / AUTHORITY_KEY).unlink()
    lost = lost_files(folder)
    assert lost.nodes == ("broker-2",)
    assert not lost.has_key
    assert not lost.accounts


def databus(place: BrokerPlace, *words: str) -> str:
    """A command on the machine of the site; what it says."""
    done = run(
        [sys.executable, "-m", "deploy", *place.settings().arguments, "secure", *words], cwd=PROJECT_ROOT,
        stdin=DEVNULL, stdout=PIPE, stderr=STDOUT, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_passwords_are_lost_with_the_operators(tmp_path: Path) -> None:
    place = BrokerPlace(tmp_path / "data", free_port(), free_port())
    new_folder(place)
    before = place.bus("console")
    with running(place.settings(), IN_FORCE):
        assert topics_seen(before)
    for name in ACCOUNTS:
        account_path(tmp_path / "data" / "secure", name).unlink()
    told = databus(place, "recover")
    assert all(name in told for name in ACCOUNTS)
    with running(place.settings(), IN_FORCE):
        for name in ("console", "operator"):
            assert topics_seen(place.bus(name)) >= set(TOPICS)
        with pytest.raises(BusError) as refused:
            topics_seen(before)
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def wait_until_trusted(bus: BusSettings, authority: Path) -> None:
    """A broker looks once a second for new certificates; `authority` alone has to have signed its
    own by then."""
    by_it = msgspec.structs.replace(
        bus, librdkafka={**bus.librdkafka, "ssl.ca.location": str(authority)}
    )
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            topics_seen(by_it)
            return
        except BusError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_authority_is_lost_while_the_site_works(tmp_path: Path) -> None:
    """Its key is gone, its passphrase forgotten. Nobody stops; in the end nobody trusts it."""
    place = BrokerPlace(tmp_path / "data", free_port(), free_port())
    new_folder(place)
    folder, passphrase = tmp_path / "data" / "secure", tmp_path / "passphrase"
    passphrase.write_text(NEW_PASSPHRASE)
    (folder / AUTHORITY_KEY).unlink()
    old_authority = (folder / AUTHORITY_CERTIFICATE).read_bytes()
    trusts_the_old = tmp_path / "old.pem"
    trusts_the_old.write_bytes(old_authority)
    assert "rotate authority" in databus(place, "recover")
    with running(place.settings(), IN_FORCE):
        databus(place, "rotate", "authority", "--passphrase", str(passphrase))
        assert topics_seen(place.bus("operator"))
        databus(place, "rotate", "certificates", "--passphrase", str(passphrase))
        assert topics_seen(place.bus("operator"))
        trusts_the_new = tmp_path / "new.pem"
        authorities = (folder / AUTHORITY_CERTIFICATE).read_bytes()
        trusts_the_new.write_bytes(authorities.replace(old_authority, b""))
        wait_until_trusted(place.bus("operator"), trusts_the_new)
        databus(place, "rotate", "authority", "--finish")
        assert topics_seen(place.bus("operator"))
        assert old_authority not in (folder / AUTHORITY_CERTIFICATE).read_bytes()
        assert not certificate_state(folder).unsigned
    with running(place.settings(), IN_FORCE):
        operator = place.bus("operator")
        assert topics_seen(operator)
        late = {**operator.librdkafka, "ssl.ca.location": str(trusts_the_old)}
        with pytest.raises(BusError) as refused:
            topics_seen(msgspec.structs.replace(operator, librdkafka=late))
        assert refused.value.code is not ErrorCode.NONE
