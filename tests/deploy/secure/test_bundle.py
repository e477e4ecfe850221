"""A machine gets what its processes need in one sealed file, and unpacks it once."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
import typer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from deploy.errors import OperatorError
from deploy.secure import bundle_format
from deploy.secure.account_settings import as_account, as_role
from deploy.secure.broker_keys import ConversionStage
from deploy.secure.bundle import VALID, make_bundle, new_code, open_bundle, write_bundle
from deploy.secure.bundle_format import (
    MAGIC,
    MAX_BUNDLE_BYTES,
    BundleError,
    SiteBundle,
    is_place,
    seal,
    unseal,
)
from deploy.secure.cli import app, mount
from deploy.secure.conversion_file import read_stage, write_stage
from deploy.secure.init import init
from deploy.secure.other_site import export_site, trust
from deploy.settings.composed import load
from dr_mirror.settings import MirrorSettings

NOW = datetime(2026, 11, 30, tzinfo=UTC)
HOST = "server-2.city.example"
CODE = "a code that nobody knows"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("site") / "secure"
    init(place, site="a", brokers=3, places=["localhost", HOST], passphrase="long enough a one")
    return place


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deriving a key costs a tenth of a second: not for thousands of examples."""
    monkeypatch.setattr(bundle_format, "SCRYPT_ROUNDS", 2)


def written(folder: Path, path: Path, **more: list[int] | list[str]) -> SiteBundle:
    what = {"brokers": [2], "accounts": ["edge"], **more}
    made = make_bundle(folder, HOST, now=NOW, **what)  # type: ignore[arg-type]
    write_bundle(path, made, CODE)
    return made


def test_a_machine_gets_its_node_its_accounts_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    sealed, there = tmp_path / "bundle", tmp_path / "there" / "secure"
    written(folder, sealed)
    assert sealed.stat().st_mode & 0o077 == 0
    open_bundle(sealed, there, CODE, NOW)
    found = {str(path.relative_to(there)) for path in there.rglob("*") if path.is_file()}
    assert found == {
        "authority/ca.pem", "accounts/edge.toml", "nodes/broker-2/broker.pem", "nodes/broker-2/broker.toml",
        "nodes/broker-2/zookeeper.pem",
    }  # fmt: skip
    assert all((there / name).read_bytes() == (folder / name).read_bytes() for name in found)
    for path in (there, *there.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_the_processes_of_that_machine_start_with_it_and_no_others(folder: Path, tmp_path: Path) -> None:
    written(folder, tmp_path / "bundle")
    open_bundle(tmp_path / "bundle", tmp_path / "var" / "secure", CODE, NOW)
    flags = [f"site.data_dir={tmp_path / 'var'}", "security.folder=secure", "broker.node.id=2"]
    there = load(None, flags, environment={})
    assert as_account(there, "edge").bus.librdkafka["sasl.username"] == "edge"
    assert Path(as_role(there, "broker").broker["ssl.keystore.location"]).is_file()
    with pytest.raises(OperatorError, match=r"accounts/console\.toml"):
        as_account(there, "console")


def test_the_console_gets_what_it_shows_to_zookeeper(folder: Path, tmp_path: Path) -> None:
    written(folder, tmp_path / "bundle", brokers=[], accounts=["console"])
    open_bundle(tmp_path / "bundle", tmp_path / "var" / "secure", CODE, NOW)
    flags = [f"site.data_dir={tmp_path / 'var'}", "security.folder=secure"]
    console = as_account(load(None, flags, environment={}), "console").console
    assert Path(console.zookeeper_certificate_pem).is_file()


@pytest.mark.parametrize("account", ["edge", "mirror", "operator", "console", "watch"])
def test_of_a_pair_a_machine_gets_what_its_accounts_need_at_the_other_site(
    folder: Path, account: str, tmp_path: Path
) -> None:
    here, other = tmp_path / "here", tmp_path / "other"
    shutil.copytree(folder, here)
    init(other, site="B", brokers=1, places=["localhost"], passphrase="long enough a one")
    pair = MirrorSettings(source_bootstrap_servers="a:1", target_bootstrap_servers="b:1")
    export_site(other, "B", tmp_path / "from-b.toml")
    trust(here, tmp_path / "from-b.toml", pair)
    written(here, tmp_path / "bundle", brokers=[], accounts=[account])
    there = tmp_path / "var" / "secure"
    open_bundle(tmp_path / "bundle", there, CODE, NOW)
    flags = [
        f"site.data_dir={tmp_path / 'var'}", "security.folder=secure",
        "mirror.source_bootstrap_servers=a:1", "mirror.target_bootstrap_servers=b:1",
    ]  # fmt: skip
    as_account(load(None, flags, environment={}), account)
    logins = {path.stem for path in there.glob("sites/B/accounts/*")}
    assert logins == {"edge": {"edge"}, "mirror": {"mirror"}, "operator": {"edge", "mirror"}}.get(account, set())
    assert (there / "sites" / "pair.toml").exists() is (account != "watch")


def test_a_site_on_its_way_to_closed_is_at_the_same_stage_there(folder: Path, tmp_path: Path) -> None:
    here = tmp_path / "here"
    shutil.copytree(folder, here)
    write_stage(here, ConversionStage.BOTH)
    written(here, tmp_path / "bundle")
    open_bundle(tmp_path / "bundle", tmp_path / "there", CODE, NOW)
    assert read_stage(tmp_path / "there") is ConversionStage.BOTH


def test_it_is_opened_once(folder: Path, tmp_path: Path) -> None:
    sealed, copy, there = tmp_path / "bundle", tmp_path / "copy", tmp_path / "secure"
    written(folder, sealed)
    shutil.copy(sealed, copy)
    open_bundle(sealed, there, CODE, NOW)
    assert not sealed.exists()
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    with pytest.raises(OperatorError, match="stands; nothing is changed"):
        open_bundle(copy, there, CODE, NOW)
    assert {path: path.read_bytes() for path in there.rglob("*") if path.is_file()} == before
    assert copy.exists()


def test_after_a_day_it_is_not_opened(folder: Path, tmp_path: Path) -> None:
    written(folder, tmp_path / "bundle")
    with pytest.raises(OperatorError, match="another one made"):
        open_bundle(tmp_path / "bundle", tmp_path / "secure", CODE, NOW + VALID + timedelta(seconds=1))
    assert not (tmp_path / "secure").exists()
    open_bundle(tmp_path / "bundle", tmp_path / "secure", CODE, NOW + VALID)


def test_what_a_killed_command_has_left_is_made_again(folder: Path, tmp_path: Path) -> None:
    written(folder, tmp_path / "bundle")
    half = tmp_path / "secure.new" / "nodes"
    half.mkdir(parents=True)
    (half / "left").write_text("half")
    open_bundle(tmp_path / "bundle", tmp_path / "secure", CODE, NOW)
    assert not list((tmp_path / "secure").rglob("left"))


def test_a_bundle_is_not_written_over_another_file(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bundle").write_text("mine")
    with pytest.raises(OperatorError, match="could not be made"):
        written(folder, tmp_path / "bundle")
    assert (tmp_path / "bundle").read_text() == "mine"


def test_another_code_and_an_altered_file_open_nothing_and_tell_no_secret(folder: Path, tmp_path: Path) -> None:
    written(folder, tmp_path / "bundle")
    with pytest.raises(OperatorError) as refused:
        open_bundle(tmp_path / "bundle", tmp_path / "secure", new_code(), NOW)
    assert "the code is another one" in str(refused.value)
    assert CODE not in str(refused.value)
    assert not (tmp_path / "secure").exists()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"accounts": ["nobody"]}, "nobody"),
        ({"brokers": [9]}, "broker-9"),
    ],
)
def test_what_the_folder_does_not_have_is_named(
    folder: Path, tmp_path: Path, more: dict[str, list[int]], why: str
) -> None:
    with pytest.raises(OperatorError, match=why):
        written(folder, tmp_path / "bundle", **more)


def test_a_broker_whose_certificate_is_for_other_machines_is_refused(folder: Path) -> None:
    with pytest.raises(OperatorError, match="secure init --host elsewhere"):
        make_bundle(folder, "elsewhere", brokers=[1], accounts=[], now=NOW)
    make_bundle(folder, "elsewhere", brokers=[], accounts=["edge"], now=NOW)


def small(files: dict[str, bytes]) -> SiteBundle:
    return SiteBundle(host=HOST, bundle_id="x", made_at=NOW, ends_at=NOW, files=files)


AUTHORITY = {"authority/ca.pem": b"ca"}


@pytest.mark.usefixtures("rounds")
@settings(deadline=None)
@given(data=st.data())
def test_no_altered_byte_is_taken(data: st.DataObject) -> None:
    sealed = seal(small(AUTHORITY), CODE)
    at = data.draw(st.integers(0, len(sealed) - 1))
    bit = data.draw(st.integers(0, 7))
    altered = sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :]
    with pytest.raises(BundleError):
        unseal(altered, CODE)
    with pytest.raises(BundleError):
        unseal(sealed[:at], CODE)
    assert unseal(sealed, CODE).files == AUTHORITY


@pytest.mark.usefixtures("rounds")
@settings(deadline=None)
@given(st.binary(max_size=200), st.booleans())
@example(b"", True)
@example(bytes(MAX_BUNDLE_BYTES), True)
def test_any_bytes_are_refused_with_a_sentence(data: bytes, begins: bool) -> None:
    with pytest.raises(BundleError):
        unseal(MAGIC + data if begins else data, CODE)


@pytest.mark.parametrize(
    "place",
    [
        "../secure/ca.pem", "/etc/passwd", "authority/ca.key", "authority/../authority/ca.pem", "nodes/broker-1/x",
        "accounts/../../x.toml", "accounts/edge.toml/", "accounts//edge.toml", "nodes/broker-1/../broker.pem", "",
        "accounts/edge.toml\n", "ACCOUNTS/edge.toml", "conversion.json/x", "accounts/\x00.toml",
    ],
)  # fmt: skip
def test_whoever_knows_the_code_still_writes_nowhere_else(place: str) -> None:
    assert not is_place(place)
    with pytest.raises(ValueError, match="place"):
        small({**AUTHORITY, place: b""})


@pytest.mark.usefixtures("rounds")
def test_what_is_sealed_and_is_no_bundle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for inside in (b"{}", b"[]", b"not json", msgspec.json.encode({"files": {"../x": ""}})):
        monkeypatch.setattr(msgspec.json, "encode", lambda _, text=inside: text)
        sealed = seal(small(AUTHORITY), CODE)
        monkeypatch.undo()
        monkeypatch.setattr(bundle_format, "SCRYPT_ROUNDS", 2)
        with pytest.raises(BundleError):
            unseal(sealed, CODE)


def test_from_one_machine_to_the_other_by_the_commands(folder: Path, tmp_path: Path) -> None:
    here = load(None, [f"site.data_dir={folder.parent}"], environment={})
    there = load(None, [f"site.data_dir={tmp_path / 'there'}"], environment={})
    root = typer.Typer()
    mount(root)
    sealed, code = tmp_path / "server.bundle", tmp_path / "code"
    made = CliRunner().invoke(
        app, ["bundle", HOST, "--broker", "1", "--account", "edge", "--out", str(sealed)], obj=here
    )
    assert made.exit_code == 0, made.output
    shown = next(line for line in made.output.splitlines() if "shown this once" in line)
    code.write_text(shown.rpartition(": ")[2] + "\n")
    opened = CliRunner().invoke(app, ["open", str(sealed), "--passphrase", str(code)], obj=there)
    assert opened.exit_code == 0, opened.output
    assert "broker-1, edge" in opened.output
    assert (tmp_path / "there" / "secure" / "accounts" / "edge.toml").is_file()
    assert not sealed.exists()
