"""What is saved under load comes back whole, of one moment, and goes on from its positions."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from alarm.dispatch.operations import BatchChanges, OperationsStore
from bus.contracts.alarms import Alarm
from deploy.backup import MANIFEST, backup, places, restore
from deploy.errors import OperatorError
from deploy.settings import Settings, load
from deploy.state_file import StateFile
from ingest.store import open_store
from ingest.store.port import PositionsOverlap, Query, RecordStore, StoreBatch
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from tests.ingest.store.made import position, row

BATCH = 50
FAR = 10**9  # a record that the traffic never reaches


def site(folder: Path) -> Settings:
    return load(flags=[f"site.data_dir={folder}"], environment={})


class StoreTraffic:
    """Ingest's writer under load: batches with positions, until told to stop."""

    def __init__(self, store: RecordStore) -> None:
        self._store = store
        self.end = 0
        self._stop = threading.Event()
        self.under_way = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            write(self._store, self.end)
            self.end += BATCH
            self.under_way.set()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def write(store: RecordStore, start: int) -> None:
    rows = [row(number) for number in range(start, start + BATCH)]
    store.apply(StoreBatch(rows=rows), [position(start + BATCH, start)])


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[tuple[Settings, StoreTraffic]]:
    """A data directory whose record store is being written."""
    settings = site(tmp_path / "var")
    store = open_store(settings.store.records_url(settings.site), "write")
    traffic = StoreTraffic(store)
    assert traffic.under_way.wait(30)
    yield settings, traffic
    traffic.stop()
    store.close()


def test_a_backup_under_load_holds_rows_and_positions_of_one_moment(
    busy: tuple[Settings, StoreTraffic], tmp_path: Path
):
    """The restored store holds exactly the records below its position, and goes on from there: the
    batch after it is taken, a later one does not fit."""
    settings, traffic = busy
    for number in range(5):
        backup(settings, tmp_path / f"saved-{number}")
    traffic.stop()
    assert traffic.end > 0
    for number in range(5):
        restored = site(tmp_path / f"again-{number}")
        restore(restored, tmp_path / f"saved-{number}")
        url = restored.store.records_url(restored.site)
        with closing(open_store(url, "write")) as store:
            (at,) = store.positions("ingest")
            assert store.count(Query()) == at.end_offset == store.count(Query(kind="vehicle"))
            assert 0 < at.end_offset <= traffic.end
            with pytest.raises(PositionsOverlap):
                store.apply(StoreBatch(), [position(at.end_offset + 9, at.end_offset - 1)])
            write(store, at.end_offset)
            assert store.count(Query()) == at.end_offset + BATCH


def test_alarms_accounts_and_the_register_are_saved(tmp_path: Path):
    """While their owners have them open; what comes back is readable by its owner only."""
    settings = site(tmp_path / "var")
    alarm = Alarm(
        alarm_id="r:1", rule_id="r", rule_name="", severity="high", record_id="1", kind="vehicle",
        checkpoint_id="", captured_at_ms=1, received_at_ms=1, raised_at_ms=1,
    )  # fmt: skip
    with closing(OperationsStore(settings.dispatcher.operations_path(settings.site))) as operations:
        operations.apply(BatchChanges(alarms=[alarm]))
        accounts = AccountStore(settings.site.data_path)
        accounts.add("wang", "a long password", [AccountRole.OPERATOR])
        places(settings)["register.json"].write_text('{"devices": []}')
        manifest = backup(settings, tmp_path / "saved")
        accounts.close()
    saved = {"operations.db", "accounts.db", "register.json"}
    assert {file.name for file in manifest.files} == saved
    restored = site(tmp_path / "again")
    restore(restored, tmp_path / "saved")
    with closing(OperationsStore(restored.dispatcher.operations_path(restored.site))) as operations:
        assert operations.apply(BatchChanges(alarms=[alarm])) == [], "it is known"
    assert places(restored)["register.json"].read_text() == '{"devices": []}'
    again = AccountStore(restored.site.data_path)
    assert again.verify("wang", "a long password")
    again.close()
    for name in saved:
        assert places(restored)[name].stat().st_mode & 0o077 == 0


def test_a_damaged_backup_replaces_nothing(busy: tuple[Settings, StoreTraffic], tmp_path: Path):
    """Every file is compared with its checksum before the first one is put in place."""
    settings, traffic = busy
    backup(settings, tmp_path / "saved")
    traffic.stop()
    damaged = tmp_path / "saved" / "records.db"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    restored = site(tmp_path / "again")
    with pytest.raises(OperatorError, match="checksum differs"):
        restore(restored, tmp_path / "saved")
    assert not places(restored)["records.db"].exists()


def test_a_data_directory_with_data_is_replaced_only_when_told(
    busy: tuple[Settings, StoreTraffic], tmp_path: Path
):
    """And never under a running product; a log of the replaced database is not replayed into the
    restored one."""
    settings, _ = busy
    backup(settings, tmp_path / "saved")
    with pytest.raises(OperatorError, match="is being written"):
        restore(settings, tmp_path / "saved", replace=True)
    other = site(tmp_path / "other")
    url = other.store.records_url(other.site)
    with closing(open_store(url, "write")) as store:
        write(store, FAR)
        shutil.copytree(tmp_path / "other" / "store", tmp_path / "killed" / "store")
    killed = site(tmp_path / "killed")  # its write-ahead log lies beside the file, as after kill -9
    assert places(killed)["records.db"].with_name("records.db-wal").stat().st_size > 0
    with pytest.raises(OperatorError, match="--replace"):
        restore(killed, tmp_path / "saved")
    state = StateFile(tmp_path / "killed", {})
    state.acquire()
    with pytest.raises(OperatorError, match="in use"):
        restore(killed, tmp_path / "saved", replace=True)
    state.release()
    restore(killed, tmp_path / "saved", replace=True)
    with closing(open_store(killed.store.records_url(killed.site), "write")) as store:
        assert store.count(Query(record_id="id-0")) == 1
        assert store.count(Query(record_id=f"id-{FAR}")) == 0


def test_what_cannot_be_saved_or_read_is_said(tmp_path: Path):
    """HBase names its remedy; a folder that is there, an empty site and a strange folder are
    refused."""
    settings = site(tmp_path / "var")
    with pytest.raises(OperatorError, match="nothing to save"):
        backup(settings, tmp_path / "saved")
    (tmp_path / "var").mkdir()
    places(settings)["register.json"].write_text("{}")
    in_hbase = load(
        flags=[f"site.data_dir={tmp_path}/var", "store.url=hbase://h:9090/city"], environment={}
    )
    with pytest.raises(OperatorError, match="hbase shell"):
        backup(in_hbase, tmp_path / "saved")
    backup(in_hbase, tmp_path / "saved", with_records=False)
    with pytest.raises(OperatorError, match="exists"):
        backup(settings, tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / MANIFEST).read_text())
    (tmp_path / "saved" / MANIFEST).write_text(json.dumps({**manifest, "format": 2}))
    with pytest.raises(OperatorError, match="has format 2"):
        restore(settings, tmp_path / "saved")
    manifest["files"][0]["name"] = "../../etc/passwd"
    (tmp_path / "saved" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(OperatorError, match="no file of a backup"):
        restore(settings, tmp_path / "saved")
    with pytest.raises(OperatorError, match="is no backup"):
        restore(settings, tmp_path / "var")
