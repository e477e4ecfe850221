"""A backup of a store in HBase while it is written: one moment, a short pause, and back again."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from deploy.backup.hbase_snapshots import HbaseShell, put_back_snapshots, take_snapshots
from deploy.errors import OperatorError, Unavailable
from deploy.servers.hbase import Hbase
from deploy.servers.hbase_shell import shell_command
from deploy.setup.server_jars import hbase_shell_jars
from ingest.store.hbase import pause
from ingest.store.hbase.pause import AttemptGate, PauseRequest
from ingest.store.open import hbase_connection, open_store
from ingest.store.port import Query, StoreError
from tests.deploy.backup.test_backup import BATCH, StoreTraffic, write
from tests.ingest.store.conftest import new_name

PAUSE_BOUND_S = 60.0  # the aim is 5; on a machine that runs everything else it may take longer


@pytest.fixture(scope="module")
def command(hbase: Hbase) -> str:
    """What an operator says as --hbase-shell."""
    try:
        hbase_shell_jars()
    except Unavailable as missing:
        pytest.skip(f"HBase's shell: {missing}")
    return shlex.join(shell_command(hbase.folder / "conf"))


@pytest.fixture
def url(hbase: Hbase) -> str:
    return f"hbase://{hbase.address}/{new_name()}backup"


@pytest.fixture
def traffic(url: str) -> Iterator[StoreTraffic]:
    store = open_store(url, "write")
    made = StoreTraffic(store)
    assert made.under_way.wait(120)
    yield made
    made.stop()
    store.close()


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_snapshots_under_load_are_of_one_moment_and_ingest_waits_shortly(
    url: str, command: str, traffic: StoreTraffic, capsys: pytest.CaptureFixture[str]
) -> None:
    """The restored tables hold exactly the records below their position, and go on from there; the
    writer of before is shut out."""
    saved = take_snapshots(url, command)
    after = traffic.end
    with capsys.disabled():
        print(f"\ningest waited {saved.paused_ms} ms for {len(saved.tables)} tables")
    assert saved.answered, "a writer with something to write answers"
    assert saved.paused_ms < PAUSE_BOUND_S * 1000
    deadline = time.monotonic() + 120
    while traffic.end <= after and time.monotonic() < deadline:
        time.sleep(0.05)
    assert traffic.end > after, "it goes on by itself"
    traffic.stop()
    with pytest.raises(OperatorError, match="--replace"):
        put_back_snapshots(url, saved.tables, command, replace=False)
    put_back_snapshots(url, saved.tables, command, replace=True)
    with closing(open_store(url, "write")) as store:
        (at,) = store.positions("ingest")
        assert BATCH <= at.end_offset < traffic.end
        assert store.count(Query()) == at.end_offset == store.count(Query(kind="vehicle"))
        assert store.counts().stored == {"vehicle": at.end_offset}
        write(store, at.end_offset)
        assert store.counts().stored == {"vehicle": at.end_offset + BATCH}
    with pytest.raises(StoreError):
        write(traffic.store, at.end_offset + BATCH)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_backup_that_died_holds_ingest_for_a_while_only(
    url: str, hbase: Hbase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody releases it; the same request holds it once."""
    monkeypatch.setattr(pause, "MAX_PAUSE_S", 0.3)
    with closing(open_store(url, "write")) as store:
        connection, _ = hbase_connection(url)
        with closing(connection):
            PauseRequest(connection).ask()
            write(store, 0)
            write(store, BATCH)
        assert store.counts().stored == {"vehicle": 2 * BATCH}


class AskedFor:
    """What the gate asks of a connection, with an answer for each time it looks."""


def test_the_gate_waits_as_long_as_it_is_asked_to_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the writer's own clock: the other machine's may be wrong."""
    clock = [0.0]
    gate = AttemptGate(AskedFor(), lambda: clock[0], lambda s: clock.__setitem__(0, clock[0] + s))  # type: ignore[arg-type]
    answers: list[bytes] = []
    monkeypatch.setattr(pause, "_put", lambda _, column, value: answers.append(value))
    script = iter([b"a", b"a", b"", b"a", b"", b""])
    monkeypatch.setattr(gate, "_asked", lambda: next(script))
    gate.wait()
    assert clock == [pytest.approx(2 * pause.POLL_S)]
    assert answers == [b"a"]
    monkeypatch.setattr(gate, "_asked", lambda: b"dead")
    gate.wait()
    held = clock[0]
    assert held == pytest.approx(pause.MAX_PAUSE_S + 2 * pause.POLL_S, abs=2 * pause.POLL_S)
    gate.wait()
    assert clock[0] == held, "once"


def test_a_shell_that_fails_says_what_it_said() -> None:
    """It may end, or print an error and go on."""
    with HbaseShell("sh") as shell, pytest.raises(OperatorError, match=r"has ended: .*not found"):
        shell.run(["snapshot 'a', 'b'", "exit 1"])
