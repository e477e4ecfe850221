"""New authorities, certificates and passwords of a site: each step whole or not at all, and again after a crash."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from cryptography import x509
from typer.testing import CliRunner

from bus.client.wire.sync_client import SyncClient
from bus.contracts.access import EDGE, OPERATOR
from bus.errors import BusError
from bus.protocol.apis import ApiKey
from bus.protocol.generated.api_versions import ApiVersionsRequest
from deploy.cli import mount_commands
from deploy.errors import OperatorError
from deploy.paths import PROJECT_ROOT
from deploy.roles.watch_ports import certificate_ends
from deploy.secure.account_settings import as_account
from deploy.secure.certificate_rotation import (
    begin_authority,
    certificate_state,
    finish_authority,
    sign_certificates,
)
from deploy.secure.init import init, own_places
from deploy.secure.layout import (
    AUTHORITY_CERTIFICATE,
    AUTHORITY_KEY,
    IN_FORCE,
    NEXT_AUTHORITY,
    NEXT_AUTHORITY_KEY,
    account_path,
    node_store,
)
from deploy.secure.password_rotation import begin_passwords, finish_passwords
from deploy.secure.secret_tables import read_tables
from deploy.secure.started_before import started_before
from deploy.servers.process import free_range
from deploy.settings.composed import Settings, load
from deploy.supervisor.state_file import StateFile

OLD, NEW = "the old passphrase", "the new passphrase"
READY_S = 90.0
SIGNED = (
    "broker-1", "broker-1/zookeeper", "broker-2", "broker-2/zookeeper", "zookeeper/console", "zookeeper/server",
)  # fmt: skip


def made(folder: Path, brokers: int = 2) -> Path:
    init(folder, site="a", brokers=brokers, places=own_places(["bus.example"]), passphrase=OLD)
    return folder


def now() -> datetime:
    return datetime.now(UTC)


def trusts(folder: Path, number: int) -> bool:
    """Whether whoever trusts the folder's authorities trusts this node's certificate."""
    authorities = x509.load_pem_x509_certificates((folder / AUTHORITY_CERTIFICATE).read_bytes())
    leaf = x509.load_pem_x509_certificate(node_store(folder, number).read_bytes())
    return any(leaf.issuer == one.subject and _has_signed(one, leaf) for one in authorities)


def _has_signed(authority: x509.Certificate, leaf: x509.Certificate) -> bool:
    try:
        leaf.verify_directly_issued_by(authority)
    except Exception:  # whatever it is: not signed
        return False
    return True


def test_authorities_change_and_every_node_is_trusted_at_each_moment(tmp_path: Path) -> None:
    folder = made(tmp_path / "secure")
    old = (folder / AUTHORITY_CERTIFICATE).read_bytes()
    before = x509.load_pem_x509_certificate(node_store(folder, 1).read_bytes())
    begin_authority(folder, "a", NEW, now())
    assert old in (folder / AUTHORITY_CERTIFICATE).read_bytes()
    assert certificate_state(folder).unsigned == SIGNED
    assert trusts(folder, 1)
    with pytest.raises(OperatorError, match="rotate certificates"):
        finish_authority(folder)
    assert tuple(sign_certificates(folder, NEW, now())) == SIGNED
    assert trusts(folder, 1)
    assert certificate_state(folder).unsigned == ()
    finish_authority(folder)
    assert old not in (folder / AUTHORITY_CERTIFICATE).read_bytes()
    assert trusts(folder, 1)
    assert trusts(folder, 2)
    after = x509.load_pem_x509_certificate(node_store(folder, 1).read_bytes())
    assert after.subject == before.subject
    assert _names(after) == _names(before)
    assert not certificate_state(folder).is_changing
    assert tuple(sign_certificates(folder, NEW, now())) == SIGNED  # of the one that stands


def _names(leaf: x509.Certificate) -> list[str]:
    return [str(one.value) for one in leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value]


def test_what_rotation_writes_is_open_to_its_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = made(tmp_path / "secure")
        begin_authority(folder, "a", NEW, now())
        sign_certificates(folder, NEW, now())
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in folder.rglob("*") if path.is_file()} == {0o600}


def test_a_second_authority_is_not_begun_while_one_comes(tmp_path: Path) -> None:
    folder = made(tmp_path / "secure")
    begin_authority(folder, "a", NEW, now())
    with pytest.raises(OperatorError, match="changing already"):
        begin_authority(folder, "a", NEW, now())


@pytest.mark.parametrize("left", [NEXT_AUTHORITY_KEY, AUTHORITY_CERTIFICATE, NEXT_AUTHORITY])
def test_a_begin_that_died_behind_any_of_its_files_is_begun_anew(tmp_path: Path, left: Path) -> None:
    """The files in the order in which they are written; those behind `left` are as they were before."""
    folder = made(tmp_path / "secure")
    before = {one: _content(folder / one) for one in (AUTHORITY_CERTIFICATE, NEXT_AUTHORITY)}
    begin_authority(folder, "a", NEW, now())
    order = [NEXT_AUTHORITY_KEY, AUTHORITY_CERTIFICATE, NEXT_AUTHORITY]
    for one in order[order.index(left) + 1 :]:
        _restore(folder / one, before[one])
    if left is not NEXT_AUTHORITY:
        begin_authority(folder, "a", NEW, now())
    sign_certificates(folder, NEW, now())
    finish_authority(folder)
    assert trusts(folder, 1)
    assert len(x509.load_pem_x509_certificates((folder / AUTHORITY_CERTIFICATE).read_bytes())) == 1


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _restore(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def test_a_finish_that_died_half_way_is_finished(tmp_path: Path) -> None:
    folder = made(tmp_path / "secure")
    begin_authority(folder, "a", NEW, now())
    sign_certificates(folder, NEW, now())
    mark = (folder / NEXT_AUTHORITY).read_bytes()
    finish_authority(folder)
    (folder / NEXT_AUTHORITY).write_bytes(mark)  # died before its last step
    finish_authority(folder)
    assert not certificate_state(folder).is_changing
    assert trusts(folder, 2)
    sign_certificates(folder, NEW, now())


def test_a_wrong_passphrase_or_a_key_that_was_taken_away_changes_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path / "secure")
    before = node_store(folder, 1).read_bytes()
    with pytest.raises(OperatorError, match="passphrase"):
        sign_certificates(folder, "another passphrase", now())
    (folder / AUTHORITY_KEY).unlink()
    with pytest.raises(OperatorError, match="taken away"):
        sign_certificates(folder, OLD, now())
    with pytest.raises(OperatorError, match="no change of authorities"):
        finish_authority(folder)
    assert node_store(folder, 1).read_bytes() == before


def test_the_watch_is_told_of_every_certificate_of_the_folder(tmp_path: Path) -> None:
    made(tmp_path / "secure")
    settings = load(None, [f"site.data_dir={tmp_path}", "security.folder=secure"], {})
    assert {one.name for one in certificate_ends(settings)} == {"authority", *SIGNED}
    assert all(one.ends_at_ms > now().timestamp() * 1000 for one in certificate_ends(settings))
    assert certificate_ends(load(None, [f"site.data_dir={tmp_path}"], {})) == []


def test_a_process_that_started_before_a_file_changed_is_named_and_a_broker_is_not(tmp_path: Path) -> None:
    state = StateFile(tmp_path, {})
    state.acquire()
    try:
        own = {"state": "running", "pid": os.getpid(), "restarts": 0, "since_ms": 1}
        state.write({"edge": own, "broker-1": own, "console": own | {"pid": None}})
        changed = tmp_path / "changed"
        changed.write_text("", encoding="utf-8")
        assert started_before(tmp_path, [changed]) == ["edge"]
        os.utime(changed, (0, 0))
        assert started_before(tmp_path, [changed]) == []
    finally:
        state.release()
    assert started_before(tmp_path, [tmp_path / "supervisor.lock"]) == []


# -- a broker that runs ---------------------------------------------------------------------------


@contextmanager
def running(settings: Settings, log_path: Path) -> Iterator[None]:
    words = [sys.executable, "-m", "deploy", *settings.arguments, "run", "broker"]
    with open(log_path, "ab") as log:
        process = subprocess.Popen(
            words, cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + READY_S
        while IN_FORCE not in log_path.read_text("utf-8", "replace"):
            is_late = process.poll() is not None or time.monotonic() > deadline
            assert not is_late, log_path.read_text("utf-8", "replace")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


def lets_in(settings: Settings) -> bool:
    """A new connection, by what the settings say."""
    try:
        with SyncClient.of(settings.bus, "test", connect_timeout_ms=20_000, request_timeout_ms=20_000) as client:
            client.request(ApiKey.API_VERSIONS, ApiVersionsRequest())
        return True
    except BusError:
        return False


@pytest.mark.slow
def test_a_running_broker_takes_new_certificates_and_passwords_and_the_old_ones_until_they_are_withdrawn(
    tmp_path: Path,
) -> None:
    port = free_range(6)
    folder = made(tmp_path / "secure", brokers=1)
    plain = load(
        None,
        [f"site.data_dir={tmp_path}", "security.folder=secure", f"bus.bootstrap_servers=127.0.0.1:{port}",
         f"broker.listeners=PLAINTEXT://127.0.0.1:{port}", f"broker.metrics.port={port + 2}"],
        {},
    )  # fmt: skip
    with running(plain, tmp_path / "broker.log"):
        before = as_account(plain, EDGE)
        assert lets_in(before)

        with SyncClient.of(as_account(plain, OPERATOR).bus, "test") as client:
            begin_passwords(folder, client, [EDGE])
            both = as_account(plain, EDGE)
            assert both.bus.librdkafka["sasl.password"] != before.bus.librdkafka["sasl.password"]
            assert lets_in(before)
            assert lets_in(both)
            assert finish_passwords(folder, client, [EDGE]) == [EDGE]
            assert finish_passwords(folder, client, [EDGE]) == []
        assert lets_in(both)
        assert not lets_in(before)

        served = _served(port, folder)
        begin_authority(folder, "a", NEW, now())
        assert lets_in(both)
        sign_certificates(folder, NEW, now())
        deadline = time.monotonic() + 60
        while _served(port, folder) == served:
            assert time.monotonic() < deadline, "the broker shows its old certificate still"
            time.sleep(0.2)
        finish_authority(folder)
        assert lets_in(both)
    with running(plain, tmp_path / "again.log"):  # its users are those of the files
        assert lets_in(as_account(plain, EDGE))
        assert not lets_in(before)


def _served(port: int, folder: Path) -> bytes:
    """The certificate that a new connection is shown; it has to be trusted."""
    context = ssl.create_default_context(cafile=str(folder / AUTHORITY_CERTIFICATE))
    import socket

    with socket.create_connection(("127.0.0.1", port), 20) as plain, context.wrap_socket(
        plain, server_hostname="127.0.0.1"
    ) as secured:
        shown = secured.getpeercert(binary_form=True)
        assert shown is not None
        return shown


def test_the_commands_say_what_comes_next(tmp_path: Path) -> None:
    app = typer.Typer()

    @app.callback()
    def _settings(ctx: typer.Context) -> None:
        ctx.obj = load(None, [f"site.data_dir={tmp_path}"], {})

    mount_commands(app, lambda row: row.name == "secure")
    run = CliRunner().invoke
    refused = run(app, ["secure", "rotate", "status"])
    assert refused.exit_code != 0
    assert "secure init" in str(refused.exception)
    made(tmp_path / "secure")
    phrase = tmp_path / "phrase"
    phrase.write_text(NEW + "\n", encoding="utf-8")
    words = ["--passphrase", str(phrase)]
    assert "rotate certificates" in run(app, ["secure", "rotate", "authority", *words]).output
    assert "of the authority that goes" in run(app, ["secure", "rotate", "status"]).output
    assert "authority --finish" in run(app, ["secure", "rotate", "certificates", *words]).output
    assert run(app, ["secure", "rotate", "authority", "--finish"]).exit_code == 0
    assert account_path(tmp_path / "secure", EDGE).exists()
    assert read_tables(account_path(tmp_path / "secure", EDGE))["bus"]["librdkafka"]["sasl.username"] == EDGE
