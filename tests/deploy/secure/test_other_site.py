"""Two closed sites of a pair: each comes in at the other one, with what was exported and nothing more."""

from __future__ import annotations

import random
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from bus.contracts.access import ACCOUNTS, CITY, CONSOLE, EDGE, MIRROR, OPERATOR
from deploy.cli import mount_commands
from deploy.errors import OperatorError
from deploy.secure.account_settings import as_account
from deploy.secure.init import init
from deploy.secure.layout import account_path
from deploy.secure.other_site import export_site, other_site, own_site, trust
from deploy.secure.secret_tables import read_tables
from deploy.settings.composed import Settings, load
from dr_mirror.settings import MirrorSettings

MIRROR_SETTINGS = MirrorSettings(source_bootstrap_servers="a:1", target_bootstrap_servers="b:1")


@dataclass(frozen=True)
class TwoFolders:
    """Two folders, and the file between them."""

    root: Path

    def folder(self, site: str) -> Path:
        return self.root / site / "secure"

    def file(self, site: str) -> Path:
        return self.root / f"{site}.toml"

    def exchange(self, *sites: str, accounts: tuple[str, ...] = (MIRROR, EDGE)) -> None:
        """Each of these exports, and the other one trusts it."""
        for site in sites:
            export_site(self.folder(site), site, self.file(site), accounts)
            trust(self.folder("AB".replace(site, "")), self.file(site), MIRROR_SETTINGS)

    def settings(self, site: str, account: str) -> Settings:
        flags = {
            "site.data_dir": self.root / site, "security.folder": "secure",
            "mirror.source_bootstrap_servers": "a:1", "mirror.target_bootstrap_servers": "b:1",
            "edge.second_site_bootstrap_servers": "other:1",
        }  # fmt: skip
        return as_account(load(None, [f"{k}={v}" for k, v in flags.items()], environment={}), account)

    def password(self, site: str, account: str) -> str:
        found: str = read_tables(account_path(self.folder(site), account))["bus"]["librdkafka"]["sasl.password"]
        return found

    def authority(self, site: str) -> bytes:
        return (self.folder(site) / "authority" / "ca.pem").read_bytes()


@pytest.fixture
def pair(tmp_path: Path) -> TwoFolders:
    made = TwoFolders(tmp_path)
    for site in "AB":
        init(made.folder(site), site=site, brokers=1, places=["localhost"], passphrase="long enough a one")
    return made


def checked(login: dict[str, str], pair: TwoFolders, site: str, account: str) -> None:
    """That it comes in at this site as this account, and by its authority."""
    assert login["security.protocol"] == "SASL_SSL"
    assert login["sasl.username"] == account
    assert login["sasl.password"] == pair.password(site, account)
    assert Path(login["ssl.ca.location"]).read_bytes() == pair.authority(site)


@pytest.mark.parametrize("at", "AB")
@pytest.mark.parametrize("account", [MIRROR, OPERATOR])
def test_the_mirror_and_its_commands_come_in_at_both_ends_as_the_mirror(at: str, account: str, pair: TwoFolders) -> None:
    pair.exchange("A", "B")
    settings = pair.settings(at, account)
    checked(settings.mirror.source_bus.librdkafka, pair, "A", MIRROR)
    checked(settings.mirror.target_bus.librdkafka, pair, "B", MIRROR)
    checked(settings.bus.librdkafka, pair, at, account)


def test_the_edge_comes_in_at_the_other_site_and_only_an_exported_city_does(pair: TwoFolders) -> None:
    pair.exchange("A", "B")
    edge = pair.settings("A", EDGE)
    second = edge.edge.second_site(edge.bus)
    assert second is not None
    assert second.bootstrap_servers == "other:1"
    checked(second.librdkafka, pair, "B", EDGE)
    checked(edge.bus.librdkafka, pair, "A", EDGE)
    assert pair.settings("A", CITY).city.second_site_librdkafka == {}
    pair.exchange("B", accounts=(MIRROR, EDGE, CITY))
    checked(pair.settings("A", CITY).city.second_site_librdkafka, pair, "B", CITY)


@pytest.mark.parametrize("order", ["A B", "B A", "AB"])
def test_both_sites_share_what_seals_accounts_and_opens_pictures_in_whatever_order_they_met(
    order: str, pair: TwoFolders
) -> None:
    if order == "AB":  # both exported before either trusted
        for site in "AB":
            export_site(pair.folder(site), site, pair.file(site))
        for site, other in ("AB", "BA"):
            trust(pair.folder(site), pair.file(other), MIRROR_SETTINGS)
    else:
        pair.exchange(*order.split())
    sealed = {pair.settings(site, CONSOLE).console.accounts_secret for site in "AB"}
    tokens = {pair.settings(site, MIRROR).mirror.pictures_token for site in "AB"}
    tokens |= {pair.settings(site, EDGE).edge.mirror_tokens[MIRROR] for site in "AB"}
    tokens |= {pair.settings(site, EDGE).edge.second_site_token for site in "AB"}
    assert len(sealed) == len(tokens) == 1
    assert sealed != tokens
    assert min(map(len, sealed | tokens)) > 20


def test_who_stays_at_his_site_is_not_in_the_file_and_nobody_else_may_read_it(pair: TwoFolders) -> None:
    export_site(pair.folder("A"), "A", pair.file("A"))
    text = pair.file("A").read_text()
    for name, right in ACCOUNTS.items():
        tables = read_tables(account_path(pair.folder("A"), name))
        assert tables["security"]["page_token"] not in text
        if right.on_bus:
            assert (pair.password("A", name) in text) == (name in (MIRROR, EDGE))
    assert "PRIVATE KEY" not in text
    trust(pair.folder("B"), pair.file("A"), MIRROR_SETTINGS)
    for path in (pair.file("A"), *pair.folder("B").rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_neither_arguments_nor_other_roles_have_what_was_exported(pair: TwoFolders) -> None:
    pair.exchange("A", "B", accounts=(MIRROR, EDGE, CITY))
    secrets = {pair.password("B", name) for name in (MIRROR, EDGE, CITY)}
    secrets |= set(read_tables(pair.folder("A") / "sites" / "pair.toml")["pair"].values())
    for account in ("streams", "dispatcher", "watch", "backup"):
        settings = pair.settings("A", account)
        assert [one for one in secrets if one in repr(settings)] == []
    words = " ".join(pair.settings("A", OPERATOR).arguments)
    assert [one for one in secrets if one in words] == []


def test_a_newer_export_counts_instead_of_the_one_before(pair: TwoFolders) -> None:
    pair.exchange("A", "B")
    before = pair.password("A", MIRROR)
    path = account_path(pair.folder("A"), MIRROR)
    path.write_text(path.read_text().replace(before, "another-password-of-the-mirror"))
    pair.exchange("A")
    checked(pair.settings("B", MIRROR).mirror.source_bus.librdkafka, pair, "A", MIRROR)
    assert before not in "".join(p.read_text() for p in (pair.folder("B") / "sites").rglob("*.toml"))


def test_each_site_knows_which_one_of_the_pair_it_is_once_the_other_has_exported(pair: TwoFolders) -> None:
    assert own_site(pair.folder("B"), MIRROR_SETTINGS) is None
    pair.exchange("A")
    assert (own_site(pair.folder("B"), MIRROR_SETTINGS), other_site(pair.folder("B"), MIRROR_SETTINGS)) == ("B", "A")
    assert other_site(pair.folder("A"), MIRROR_SETTINGS) is None


def changed(pair: TwoFolders, change: str) -> Path:
    """The file of A, with something about it that is not good."""
    file = pair.file("A")
    export_site(pair.folder("A"), "A", file)
    if change == "open to others":
        file.chmod(0o644)
    elif change == "of a third site":
        file.write_text(file.read_text().replace('"site" = "A"', '"site" = "../../C"'))
    elif change == "with another key of librdkafka":
        file.write_text(file.read_text() + '"enable.ssl.certificate.verification" = "false"\n')
    elif change == "with another account":
        file.write_text(file.read_text().replace("[logins.edge]", "[logins.operator]"))
    elif change == "of no site":
        file.write_text("[bus]\n")
    return file


@pytest.mark.parametrize(
    "change",
    ["open to others", "of a third site", "with another key of librdkafka", "with another account", "of no site"],
)
def test_a_file_that_is_not_good_is_refused_and_nothing_is_kept_of_it(change: str, pair: TwoFolders) -> None:
    with pytest.raises(OperatorError):
        trust(pair.folder("B"), changed(pair, change), MIRROR_SETTINGS)
    assert not (pair.folder("B") / "sites").exists()


def test_a_site_does_not_trust_itself_nor_a_second_one(pair: TwoFolders) -> None:
    export_site(pair.folder("A"), "A", pair.file("A"))
    with pytest.raises(OperatorError, match="this very site"):
        trust(pair.folder("A"), pair.file("A"), MIRROR_SETTINGS)
    trust(pair.folder("B"), pair.file("A"), MIRROR_SETTINGS)
    init(pair.root / "third", site="c", brokers=1, places=["localhost"], passphrase="long enough a one")
    export_site(pair.root / "third", "B", pair.file("B"))
    with pytest.raises(OperatorError, match="A is the other site already"):
        trust(pair.folder("B"), pair.file("B"), MIRROR_SETTINGS)


def test_whatever_a_file_holds_it_is_taken_as_a_whole_or_refused_in_words(pair: TwoFolders) -> None:
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    file = pair.file("A")
    export_site(pair.folder("A"), "A", file)
    good = file.read_bytes()
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice((0, 1, 40))] = rng.randbytes(rng.choice((0, 1, 3)))
        file.write_bytes(data)
        try:
            trust(pair.folder("B"), file, MIRROR_SETTINGS)
        except OperatorError as error:
            assert str(file) in str(error), f"seed {seed}"  # noqa: PT017


def databus(site: Path, *words: str) -> Result:
    app = typer.Typer()
    mount_commands(app, lambda row: row.name == "secure")
    settings = load(None, [f"site.data_dir={site}"], environment={})
    return CliRunner().invoke(app, list(words), obj=settings)


def test_the_commands_say_what_they_did_and_what_comes_next(pair: TwoFolders) -> None:
    done = databus(pair.root / "A", "secure", "export", "A", str(pair.file("A")))
    assert done.exit_code == 0, done.output
    assert "./databus secure trust A.toml" in done.output
    done = databus(pair.root / "B", "secure", "trust", str(pair.file("A")))
    assert done.exit_code == 0, done.output
    assert f"Delete {pair.file('A')}" in done.output.replace("\n", "")
    assert pair.password("A", MIRROR) not in done.output
    wrong: Any = databus(pair.root / "A", "secure", "export", "C", str(pair.file("A"))).exception
    assert isinstance(wrong, OperatorError)
    assert "C is none of the two sites" in str(wrong)
