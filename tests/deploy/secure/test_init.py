"""The folder of a secured site: whole or not there, open to its owner only, never changed."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from typer.testing import CliRunner, Result

from bus.contracts.access import ACCOUNTS
from bus.files.lock_file import hold_lock_file
from deploy.cli import mount_commands
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.secure.init import init, new_passphrase, own_places, standing
from deploy.secure.secret_tables import read_tables
from deploy.settings.composed import load

PASSPHRASE = "a long enough one"


def make(folder: Path, **words: object) -> Path:
    made = {"site": "a", "brokers": 2, "places": own_places(["bus.example"]), "passphrase": PASSPHRASE}
    init(folder, **{**made, **words})  # type: ignore[arg-type]
    return folder


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_nothing_of_it_is_open_to_others_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = make(tmp_path / "secure")
    finally:
        os.umask(before)
    for path in (folder, *folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_every_account_has_a_password_of_its_own_and_the_same_token_for_pages(tmp_path: Path) -> None:
    folder = make(tmp_path / "secure")
    tables = {name: read_tables(folder / "accounts" / f"{name}.toml") for name in ACCOUNTS}
    passwords = {
        name: table["bus"]["librdkafka"]["sasl.password"] for name, table in tables.items() if "bus" in table
    }
    assert passwords.keys() == {name for name, right in ACCOUNTS.items() if right.on_bus}
    assert len(set(passwords.values())) == len(passwords)
    assert min(map(len, passwords.values())) >= 32
    assert len({table["security"]["page_token"] for table in tables.values()}) == 1


def test_a_second_init_says_what_stands_and_changes_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path / "secure")
    before = content(folder)
    with pytest.raises(OperatorError, match="stands; nothing is changed"):
        make(folder, brokers=5)
    assert content(folder) == before


@pytest.mark.slow
def test_what_a_killed_process_left_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """Killed by itself in the middle: the half is under another name, and the next one makes all."""
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom deploy.secure import init as made\n"
        "real, files = made.write_secret, []\n"
        "def file(path, data):\n    real(path, data)\n    files.append(path)\n"
        "    if len(files) == 5:\n        os.kill(os.getpid(), 9)\n"
        "made.write_secret = file\n"
        "made.init(Path(sys.argv[1]), site='a', brokers=2, places=['localhost'], passphrase='x' * 12)\n"
    )
    folder = tmp_path / "secure"
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder)], cwd=PROJECT_ROOT, timeout=120, check=False
    )
    assert done.returncode == -9
    assert standing(folder) is None
    left = content(tmp_path / "secure.new")
    assert 0 < len(left) < 10
    make(folder)
    assert not (tmp_path / "secure.new").exists()
    assert standing(folder) is not None
    assert not set(left.values()) & set(content(folder).values())


def test_two_at_the_same_time_make_one_folder(tmp_path: Path) -> None:
    with hold_lock_file(tmp_path / "secure.lock"), pytest.raises(OperatorError, match="another `secure init`"):
        make(tmp_path / "secure")
    assert standing(tmp_path / "secure") is None


def test_a_folder_of_something_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "secure").mkdir()
    (tmp_path / "secure" / "letters.txt").write_text("mine")
    with pytest.raises(OperatorError, match="is no folder of a secured site"):
        make(tmp_path / "secure")
    assert content(tmp_path / "secure") == {"letters.txt": b"mine"}


def test_the_authoritys_key_opens_with_the_passphrase_alone(tmp_path: Path) -> None:
    key = (make(tmp_path / "secure") / "authority" / "ca.key").read_bytes()
    assert load_pem_private_key(key, PASSPHRASE.encode())
    with pytest.raises(ValueError):
        load_pem_private_key(key, b"another one")
    with pytest.raises(TypeError):
        load_pem_private_key(key, None)
    assert new_passphrase() != new_passphrase()


def handshake(folder: Path, server_name: str) -> x509.Certificate:
    """What a client that trusts the authority sees of the first broker under this name."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    store = folder / "nodes" / "broker-1" / "broker.pem"
    server.load_cert_chain(store)
    server.load_verify_locations(folder / "authority" / "ca.pem")
    server.verify_mode = ssl.CERT_REQUIRED  # as between brokers
    client = ssl.create_default_context(cafile=folder / "authority" / "ca.pem")
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    client.load_cert_chain(folder / "nodes" / "broker-2" / "broker.pem")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=server_name)
    other = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for end in (one, other):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    der = one.getpeercert(binary_form=True)
    assert der
    assert other.getpeercert(), "the other broker has shown its own certificate"
    return x509.load_der_x509_certificate(der)


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "bus.example"])
def test_brokers_trust_each_other_by_every_name_of_the_machine(name: str, tmp_path: Path) -> None:
    shown = handshake(make(tmp_path / "secure"), name)
    assert shown.subject.rfc4514_string() == "CN=broker-1"


def test_another_machines_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(make(tmp_path / "secure"), "elsewhere.example")


def databus(tmp_path: Path, *words: str, stdin: str = "") -> Result:
    app = typer.Typer()
    mount_commands(app, lambda row: row.name == words[0])
    settings = load(None, [f"site.data_dir={tmp_path / 'data'}"], environment={})
    return CliRunner().invoke(app, words, obj=settings, input=stdin)


def test_the_command_shows_a_passphrase_that_it_has_made_once(tmp_path: Path) -> None:
    said = json.loads(databus(tmp_path, "secure", "init", "--json").stdout)
    key = Path(said["folder"], "authority", "ca.key").read_bytes()
    assert load_pem_private_key(key, said["passphrase"].encode())
    again = json.loads(databus(tmp_path, "secure", "init", "--json").stdout)
    assert again == {**{k: v for k, v in said.items() if k != "passphrase"}, "made": False}


def test_a_passphrase_of_standard_input_is_not_shown(tmp_path: Path) -> None:
    done = databus(tmp_path, "secure", "init", "--passphrase", "-", stdin=f"{PASSPHRASE}\n")
    assert done.exit_code == 0, done.output
    assert PASSPHRASE not in done.output
    assert "shown this once" not in done.output
    key = (tmp_path / "data" / "secure" / "authority" / "ca.key").read_bytes()
    assert load_pem_private_key(key, PASSPHRASE.encode())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["secure", "init", "--passphrase", "-"], "fewer than 12 characters"),
        (["secure", "init", "--passphrase", "/nowhere/file"], "/nowhere/file"),
        (["demo", "--secure", "--for", "1s"], "./databus secure init"),
    ],
)
def test_what_cannot_be_done_makes_nothing_and_says_why(words: list[str], said: str, tmp_path: Path) -> None:
    done = databus(tmp_path, *words, stdin="short\n")
    assert isinstance(done.exception, OperatorError)
    assert said in str(done.exception)
    assert not (tmp_path / "data").exists()


def test_more_brokers_than_have_a_certificate_are_refused_before_anything_starts(tmp_path: Path) -> None:
    assert databus(tmp_path, "secure", "init", "--brokers", "1", "--json").exit_code == 0
    done = databus(tmp_path, "demo", "--secure", "--brokers", "2", "--for", "1s")
    assert isinstance(done.exception, OperatorError)
    assert "broker-2" in str(done.exception)
    assert "--brokers 2" in str(done.exception)
    assert not (tmp_path / "data" / "demo").exists()
