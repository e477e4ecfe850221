"""What is saved under load comes back whole, of one moment, and goes on from its positions."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from alarm.dispatch.operations import BatchChanges, OperationsStore
from alarm.lists.lists_topic import read_lists
from bus.client.kafka.admin import Admin
from bus.client.kafka.producer import Producer
from bus.client.kafka.send_all import send_all
from bus.client.model import KeyedValue
from bus.client.register_writer import send_entries
from bus.contracts.alarms import Alarm, Incident
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.plate_lists import ListRecord
from bus.contracts.proposals import EmergencyTarget, SettledProposal, WatchProposal, key_of
from bus.contracts.register import Device, Register, decode_register, encode_register
from bus.contracts.topics import CONTROL_REGISTER, STATE_LISTS, STATE_WATCHLIST, TOPICS
from bus.contracts.version_floor import FLOOR_KEY
from bus.domain.feature_models import FeatureSettings
from bus.domain.register_changes import entries_of
from bus.notify.acknowledgements import Acknowledgements
from bus.notify.notice_plan import NoticePlan
from deploy.backup import control_topics
from deploy.backup.backup import MANIFEST, backup, places, restore
from deploy.backup.control_topics import put_back, read_control, restored_folder
from deploy.errors import OperatorError
from deploy.servers.databus import RunningBroker, start_broker
from deploy.settings.composed import Settings, load
from deploy.supervisor.state_file import StateFile
from ingest.store.open import open_store
from ingest.store.port import PositionsOverlap, Query, RecordStore, StoreBatch
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore
from monitor.watch.incident_file import IncidentFile
from tests.alarm.lists.made_galleries import feature, unit
from tests.alarm.lists.stored_list import records_of_gallery, records_of_list
from tests.ingest.store.made import position, row

BATCH = 50
FAR = 10**9  # a record that the traffic never reaches


@pytest.fixture(autouse=True)
def quickly_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of these sites have no bus; nothing here depends on how long it is waited for."""
    monkeypatch.setattr(control_topics, "AWAY_S", 0.05)


def site(folder: Path, bootstrap: str = "127.0.0.1:1") -> Settings:
    flags = [f"site.data_dir={folder}", f"bus.bootstrap_servers={bootstrap}"]
    return load(flags=flags, environment={})


class StoreTraffic:
    """Ingest's writer under load: batches with positions, until told to stop."""

    def __init__(self, store: RecordStore) -> None:
        self.store = store
        self.end = 0
        self._stop = threading.Event()
        self.under_way = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            write(self.store, self.end)
            self.end += BATCH
            self.under_way.set()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def write(store: RecordStore, start: int) -> None:
    rows = [row(number) for number in range(start, start + BATCH)]
    store.apply(StoreBatch(rows=rows), [position(start + BATCH, start)])


def test_a_restored_site_knows_that_its_notices_may_have_been_sent(tmp_path: Path):
    """Regression: alarms and incidents since the backup were sent a second time, unmarked."""
    settings = site(tmp_path / "var")
    path = settings.dispatcher.operations_path(settings.site)
    plan = NoticePlan(("log",))
    incident = Incident(incident_id="i", kind="away", state="open", opened_at_ms=1)
    with closing(OperationsStore(path, plan)) as store:
        store.apply(BatchChanges(incidents=[incident]))
    with closing(IncidentFile(settings.watch.file_path(settings.site), plan)) as watch:
        watch.add([(incident, ())], now_ms=1)
    backup(settings, tmp_path / "saved")
    again = site(tmp_path / "again")
    restore(again, tmp_path / "saved")
    with closing(OperationsStore(again.dispatcher.operations_path(again.site), plan)) as store:
        assert store.notices.due("log", 1 << 50, 10) == []
        assert store.notify_since_backup(set(), 5, is_secondary=False) == 1
        [notice] = store.notices.due("log", 1 << 50, 10)
        assert msgspec.json.decode(notice.body, type=Incident).perhaps_sent_before
    with closing(IncidentFile(again.watch.file_path(again.site), plan)) as watch:
        [notice] = watch.notices.due("log", 1 << 50, 10)
        assert msgspec.json.decode(notice.body, type=Incident).perhaps_sent_before


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
        Acknowledgements(settings.site).add("r:1", "wang", 1)
        manifest = backup(settings, tmp_path / "saved")
        accounts.close()
    saved = {"operations.db", "accounts.db", "register.json", "acknowledged.db"}
    assert {file.name for file in manifest.files} == saved
    restored = site(tmp_path / "again")
    restore(restored, tmp_path / "saved")
    with closing(OperationsStore(restored.dispatcher.operations_path(restored.site))) as operations:
        assert operations.apply(BatchChanges(alarms=[alarm])) == [], "it is known"
    assert places(restored)["register.json"].read_text() == '{"devices": []}'
    assert Acknowledgements(restored.site).who("r:1") == "wang"
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
        flags=[f"site.data_dir={tmp_path}/var", "store.url=hbase://h:9090/city",
               "bus.bootstrap_servers=127.0.0.1:1"], environment={}
    )
    with pytest.raises(OperatorError, match="say --hbase-shell"):
        backup(in_hbase, tmp_path / "saved", hbase_shell="no-such-hbase shell -n")
    assert not (tmp_path / "saved").exists()
    backup(in_hbase, tmp_path / "saved", with_records=False)
    with pytest.raises(OperatorError, match="exists"):
        backup(settings, tmp_path / "saved")
    manifest = json.loads((tmp_path / "saved" / MANIFEST).read_text())
    (tmp_path / "saved" / MANIFEST).write_text(json.dumps({**manifest, "format": 4}))
    with pytest.raises(OperatorError, match="has format 4"):
        restore(settings, tmp_path / "saved")
    manifest["files"][0]["name"] = "../../etc/passwd"
    (tmp_path / "saved" / MANIFEST).write_text(json.dumps(manifest))
    with pytest.raises(OperatorError, match="no file of a backup"):
        restore(settings, tmp_path / "saved")
    with pytest.raises(OperatorError, match="is no backup"):
        restore(settings, tmp_path / "var")


RULE = DecidedRule(rule_id="r", op="put", version=5, match={"plate_number": ["浙AWL999"]})
OTHER = DecidedRule(rule_id="other", op="put", version=1, match={"plate_number": ["浙B1"]})
REGISTER = Register(devices=(Device(camera_ip="10.0.0.1", checkpoint_id="c", kind="vehicle"),))


@pytest.fixture
def two_buses(tmp_path: Path) -> Iterator[list[RunningBroker]]:
    """One, and the one that comes after it was lost; both with the control topics."""
    running = [start_broker(tmp_path / name) for name in ("bus", "new-bus")]
    for one in running:
        admin = Admin(site(tmp_path, one.bootstrap).bus, client_id="test")
        admin.ensure_topics([TOPICS[CONTROL_REGISTER], TOPICS[STATE_WATCHLIST], TOPICS[STATE_LISTS]])
        admin.close()
    yield running
    for one in running:
        one.stop()


def send_rules(settings: Settings, *commands: DecidedRule) -> None:
    producer = Producer(settings.bus, client_id="test")
    for one in commands:
        producer.send(STATE_WATCHLIST, msgspec.json.encode(one), key=one.rule_id)
    assert producer.close() == 0


WAITING = WatchProposal(
    rule_id="p", version=5, decided_at_ms=5, command_id="c",
    text=WatchCommand(rule_id="p", op="put", version=1, name="n", match={"plate_number": ["浙A1"]}),
)  # fmt: skip
EMERGENCY = EmergencyTarget(target="t", version=6, rule_id="e", command_id="d", until_ms=7)


def send_beside_rules(settings: Settings) -> None:
    """One that waits, one that is settled, one emergency."""
    settled = SettledProposal(
        rule_id="q", version=7, outcome="rejected", proposal=6, decided_at_ms=7, command_id="e"
    )
    waited = msgspec.structs.replace(WAITING, rule_id="q", version=6)
    producer = Producer(settings.bus, client_id="test")
    for one in (WAITING, waited, settled, EMERGENCY):
        producer.send(STATE_WATCHLIST, msgspec.json.encode(one), key=key_of(one))
    assert producer.close() == 0


@pytest.mark.slow  # two broker processes
def test_rules_and_register_come_back_on_a_bus_that_was_lost(
    two_buses: list[RunningBroker], tmp_path: Path
):
    """They used to be missing: of the register only the simulator's file was saved, of the rules
    nothing was put back. What the new bus knows already, as removed too, is left as it is."""
    lost, new = two_buses
    before = site(tmp_path / "var", lost.bootstrap)
    (tmp_path / "var").mkdir()
    places(before)["register.json"].write_bytes(encode_register(Register(site="stale")))
    floor = DecidedRule(rule_id=FLOOR_KEY, op="floor", version=2)
    send_rules(before, RULE, OTHER, msgspec.structs.replace(OTHER, rule_id="gone"),
               DecidedRule(rule_id="gone", op="remove", version=2), floor)  # fmt: skip
    send_beside_rules(before)
    entries = entries_of(REGISTER).values()
    send_entries(before.site, before.bus, entries, "wang", "test", lambda _, at_ms: at_ms)
    manifest = backup(before, tmp_path / "saved")
    assert manifest.warnings == []
    assert decode_register((tmp_path / "saved" / "register.json").read_bytes()) == REGISTER

    after = site(tmp_path / "again", new.bootstrap)
    restore(after, tmp_path / "saved")
    send_rules(after, DecidedRule(rule_id="other", op="remove", version=9))
    put_back(after, threading.Event())
    state = read_control(after)
    assert state.rules == [RULE, floor], "no rule comes back that was removed below the floor"
    assert state.beside_rules == [WAITING, EMERGENCY]
    assert state.register == REGISTER
    assert list(restored_folder(after).iterdir()) == [], "once"

    restore(after, tmp_path / "saved", replace=True)
    changed = Register(devices=(msgspec.structs.replace(REGISTER.devices[0], kind="face"),))
    entries = entries_of(changed).values()
    send_entries(after.site, after.bus, entries, "", "test", lambda _, at_ms: at_ms)
    put_back(after, threading.Event())
    assert read_control(after).register == changed, "a register that is there is not replaced"


@pytest.mark.slow  # two broker processes
def test_lists_of_plates_come_back_with_their_lines_on_a_bus_that_was_lost(
    two_buses: list[RunningBroker], tmp_path: Path
):
    """With their changes, under their versions; one that was ended on the new bus stays so. A gallery
    comes with its features."""
    lost, new = two_buses
    before, after = site(tmp_path / "var", lost.bootstrap), site(tmp_path / "again", new.bootstrap)
    send_list(before, "stolen", 10, 25_000, changed="沪B12345")
    send_list(before, "ended", 10, 3)
    faces = {f"P{number}": feature(unit(128, number)) for number in range(2_000)}
    send_gallery(before, faces)
    assert backup(before, tmp_path / "saved").warnings == []
    restore(after, tmp_path / "saved")
    end = ListRecord(list_id="ended", op="remove", version=20)
    send_all(after.bus, "test", STATE_LISTS, [KeyedValue(b"ended", msgspec.json.encode(end))],
             headers=[], timeout_s=10, what="records")  # fmt: skip
    put_back(after, threading.Event())
    put_back(after, threading.Event())
    stored = read_lists(after.bus, "test", wanted=None)
    assert list(stored.in_force) == ["stolen", "wanted"]
    gallery = stored.in_force["wanted"]
    assert gallery.model is not None
    found = {line.entry: line.feature for line in stored.faces(gallery)}
    assert found == {**faces, "new": faces["P0"]}
    record = stored.in_force["stolen"]
    lines = list(stored.lines(record))
    assert (record.version, len(lines), lines[-1].plate) == (10, 25_001, "沪B12345")


def send_list(settings: Settings, list_id: str, version: int, count: int, changed: str = "") -> None:
    """As an importer and the decider write one."""
    plates = [f"浙A{n:05d}" for n in range(count)]
    records = records_of_list(list_id, plates, [changed] if changed else [], version)
    values = [KeyedValue(key.encode(), value) for key, value in records]
    send_all(settings.bus, "test", STATE_LISTS, values, headers=[], timeout_s=30, what="records")


def send_gallery(settings: Settings, faces: dict[str, bytes]) -> None:
    """The same of a gallery, with a change."""
    model = FeatureSettings().table()["CITY-FACE-128/1"]
    records = records_of_gallery("wanted", model, faces, added={"new": faces["P0"]}, version=11)
    values = [KeyedValue(key.encode(), value) for key, value in records]
    send_all(settings.bus, "test", STATE_LISTS, values, headers=[], timeout_s=30, what="records")


def test_without_a_bus_the_backup_says_what_it_holds_of_the_rules(tmp_path: Path):
    """Those that the dispatcher has recorded; and the site's own file for the register."""
    settings = site(tmp_path / "var")
    with closing(OperationsStore(settings.dispatcher.operations_path(settings.site))) as operations:
        operations.apply(BatchChanges(commands=[RULE]))
    manifest = backup(settings, tmp_path / "saved")
    (warning,) = manifest.warnings
    assert "the bus does not answer" in warning
    assert "the dispatcher has recorded" in warning
    saved = msgspec.json.decode((tmp_path / "saved" / "rules.json").read_bytes())
    assert [rule["rule_id"] for rule in saved] == ["r"]
