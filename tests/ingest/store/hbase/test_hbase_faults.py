"""A store in HBase while its writer dies, its server dies, or another writer takes its place."""

from __future__ import annotations

import random
import threading
from collections import Counter
from dataclasses import dataclass, field

import pytest

from bus.contracts.meters import LatencyCell
from deploy.servers.hbase import Hbase
from ingest.store.hbase import tables
from ingest.store.hbase.attempt import write_rows
from ingest.store.hbase.columns import HEAD, HEAD_ROW, read_ledger
from ingest.store.hbase.connection import HbaseConnection
from ingest.store.hbase.writer import HbaseStore
from ingest.store.open import hbase_connection, open_store
from ingest.store.port import (
    AttemptForgotten,
    PageRequest,
    Query,
    RecordReader,
    RecordRow,
    RecordStore,
    RejectedRow,
    StoreBatch,
    StoreError,
    StoreUnavailable,
)
from tests.ingest.store.conftest import new_name
from tests.ingest.store.hbase.dying import Died, DyingConnection, Mortality
from tests.ingest.store.made import MINUTE, position, quality, rejected, row, sent

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(400)]


@dataclass
class SimulatedTopic:
    """The records of a topic, some duplicate, some bad, and the expected totals."""

    messages: list[RecordRow | RejectedRow] = field(default_factory=list)

    @classmethod
    def drawn(cls, dice: random.Random, count: int) -> SimulatedTopic:
        topic = cls()
        for number in range(count):
            again = number - dice.randrange(1, 9) if dice.random() < 0.2 else number
            topic.messages.append(
                rejected(max(again, 0)) if dice.random() < 0.2 else row(max(again, 0))
            )
        return topic

    def batch(self, start: int, end: int) -> StoreBatch:
        """The messages from `start` to `end` as the ingest job would hand them over."""
        some = self.messages[start:end]
        rows = [m for m in some if isinstance(m, RecordRow)]
        bad = [m for m in some if isinstance(m, RejectedRow)]
        return StoreBatch(
            rows=[row(int(m.record_id[3:]), recognizer_ip="") for m in rows],
            rejected=[rejected(int(m.record_id[4:])) for m in bad],
            quality=[quality(arrived=len(some), valid=len(rows), rejected=_reasons(len(bad)))],
            counters=[sent(end)],
            latency=_latency,
        )

    def check(self, reader: RecordReader) -> None:
        """Checks that everything is counted exactly once."""
        good = Counter(m.record_id for m in self.messages if isinstance(m, RecordRow))
        bad = Counter(m.record_id for m in self.messages if isinstance(m, RejectedRow))
        counts = reader.counts()
        assert counts.stored == {"vehicle": len(good)}
        assert counts.rejected == ({"vehicle": _reasons(len(bad))} if bad else {})
        assert counts.duplicates.get("vehicle", 0) == good.total() - len(good)
        assert counts.rejected_duplicates.get("vehicle", 0) == bad.total() - len(bad)
        rows, _ = reader.query(Query(), PageRequest(limit=10_000))
        assert sorted(r.record_id for r in rows) == sorted(good)
        kept, _ = reader.rejected(kind="", reason="", page=PageRequest(limit=10_000))
        assert sorted(r.record_id for r in kept) == sorted(bad)
        assert reader.quality(from_ms=0, until_ms=0) == [
            quality(arrived=len(self.messages), valid=good.total(), sent=len(self.messages),
                    stored=len(good), duplicates=good.total() - len(good),
                    rejected=_reasons(bad.total()))
        ]  # fmt: skip
        [cell] = reader.latency_cells(from_ms=0, until_ms=0)
        assert cell.buckets == {7: len(good)}


def _reasons(count: int) -> dict[str, int]:
    """A reason that no record had is not listed; few messages may hold no bad one."""
    return {"not-json": count} if count else {}


def _latency(rows: object) -> list[LatencyCell]:
    return [
        LatencyCell(kind="vehicle", district_id="west", camera_ip="10.0.0.1", minute_ms=MINUTE,
                    buckets={7: len(list(rows))})  # type: ignore[call-overload]
    ]  # fmt: skip


def read_so_far(store: RecordReader) -> int:
    ends = [p.end_offset for p in store.positions("ingest")]
    return ends[0] if ends else 0


def test_whenever_its_writer_dies_everything_counts_once(
    hbase: Hbase, dice: random.Random
) -> None:
    """At any call, in the middle of one, with writes that arrive when others have written since;
    the next life draws its batches' ends again, as Spark may."""
    topic, mortality, name = SimulatedTopic.drawn(dice, 600), Mortality(dice), new_name()
    store: HbaseStore | None = None
    end = 0
    while end < len(topic.messages):
        mortality.rate = 0.08 if mortality.deaths < 60 else 0.0
        try:
            store = store or HbaseStore(DyingConnection(hbase.address, name, mortality))
            start = read_so_far(store)
            end = min(start + dice.randrange(1, 30), len(topic.messages))
            if start < end:
                store.apply(topic.batch(start, end), [position(end, start)])
        except Died:
            store, end = None, 0
        except StoreUnavailable:
            end = 0  # a change of the ledger came late: the same process tries again
    mortality.rate = 0.0
    assert mortality.deaths > 10
    reader = open_store(f"hbase://{hbase.address}/{name}")
    topic.check(reader)
    for write in mortality.late:
        write()
    topic.check(reader)
    reader.close()


def test_a_batch_that_is_under_way_is_not_seen(hbase: Hbase, dice: random.Random) -> None:
    """Not its records, not its counts; and what it changes holds its old value until then."""
    mortality, name = Mortality(dice), new_name()
    topic = SimulatedTopic.drawn(dice, 40)
    store = HbaseStore(DyingConnection(hbase.address, name, mortality))
    store.apply(topic.batch(0, 20), [position(20, 0)])
    reader = open_store(f"hbase://{hbase.address}/{name}")
    seen = SimulatedTopic(topic.messages[:20])
    seen.check(reader)

    def latency(rows: object) -> list[LatencyCell]:
        raise Died

    batch = topic.batch(20, 40)
    with pytest.raises(Died):
        store.apply(StoreBatch(rows=batch.rows, rejected=batch.rejected, latency=latency),
                    [position(40, 20)])  # fmt: skip
    seen.check(reader)
    store.apply(batch, [position(40, 20)])
    topic.check(reader)
    reader.close()


def test_the_first_store_time_wins_over_a_death(hbase: Hbase, dice: random.Random) -> None:
    """The attempt that was never committed had already stored the record (I-4)."""
    name, moments = new_name(), iter([1_000, 1_001, 5_000])
    connection = DyingConnection(hbase.address, name, Mortality(dice))
    store = HbaseStore(connection, now_ms=lambda: next(moments))

    def latency(rows: object) -> list[LatencyCell]:
        raise Died

    with pytest.raises(Died):
        store.apply(StoreBatch(rows=[row(1)], latency=latency), [position(1, 0)])
    store.apply(StoreBatch(rows=[row(1)]), [position(1, 0)])
    [found], _ = store.query(Query(record_id="id-1"), PageRequest())
    assert found.stored_at_ms == 1_000


def test_the_last_writer_shuts_the_older_one_out(hbase: Hbase) -> None:
    """Two processes that both believe to be the writer would count twice."""
    url = f"hbase://{hbase.address}/{new_name()}"
    older, newer = open_store(url, "write"), open_store(url, "write")
    with pytest.raises(StoreError, match="another process writes this store"):
        older.apply(StoreBatch(rows=[row(1)]), [position(1)])
    assert newer.apply(StoreBatch(rows=[row(1)]), [position(1)]).stored == 1
    older.close()
    newer.close()


def test_kill_9_of_the_servers_loses_nothing_and_doubles_nothing(
    hbase: Hbase, dice: random.Random
) -> None:
    """The Thrift server, then HBase itself, in the middle of batches; the writer tries again."""
    topic, url = SimulatedTopic.drawn(dice, 6_000), f"hbase://{hbase.address}/{new_name()}"
    refused: list[str] = []
    begun = threading.Event()

    def write() -> None:
        store: RecordStore | None = None
        end = 0
        while end < len(topic.messages):
            try:
                store = store or open_store(url, "write")
                start = read_so_far(store)
                end = min(start + 50, len(topic.messages))
                store.apply(topic.batch(start, end), [position(end, start)])
                if end > 500:
                    begun.set()
            except StoreUnavailable as error:
                refused.append(str(error))
                end = 0

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    assert begun.wait(60)
    hbase.kill_thrift()
    hbase.start_thrift()
    hbase.wait_until_ready()
    hbase.kill_master()
    hbase.start_master()
    hbase.wait_until_ready()
    writer.join(200)
    assert not writer.is_alive()
    assert refused, "no call noticed that the servers had died"
    topic.check(open_store(url))


def test_who_meets_a_server_that_is_away_goes_on_with_the_next(hbase: Hbase) -> None:
    """The call that met it fails, and may be made again."""
    url = f"hbase://127.0.0.1:1,{hbase.address},127.0.0.1:2/{new_name()}"
    reader = open_store(url)
    refused = 0
    while True:
        try:
            assert reader.newest_attempt() == 0
            break
        except StoreUnavailable:
            refused += 1
            assert refused < 3
    for _ in range(5):
        assert reader.newest_attempt() == 0
    reader.close()


def test_a_commit_whose_answer_was_lost_is_made_again(hbase: Hbase) -> None:
    """As often as it is asked; an attempt that was given up cannot be committed."""
    connection, _ = hbase_connection(f"hbase://{hbase.address}/{new_name()}")
    store = HbaseStore(connection)
    attempt = store.begin([position(4, 0)])
    assert attempt is not None
    assert store.begin([position(4, 0)]) == attempt
    store.commit(attempt, [position(4, 0)], {"c": 1})
    store.commit(attempt, [position(4, 0)], {"c": 1})
    assert store.begin([position(4, 0)]) is None
    left = store.begin([position(6, 4)])
    assert left is not None
    assert store.begin([position(7, 4)]) != left
    with pytest.raises(StoreError, match="was given up"):
        store.commit(left, [position(6, 4)], {"c": 2})
    assert store.clocks() == {"c": 1}, "what an attempt that was given up has left does not count"
    store.close()


def test_an_attempt_that_the_store_has_forgotten_is_written_again_under_its_number(
    hbase: Hbase,
) -> None:
    """What broke: a region server stood still for a minute with the beginning of an attempt in
    hand, took it when it went on, said so, and had lost its regions; the driver then ended at the
    commit, and what it had written under that number would have counted with the next one."""
    connection, _ = hbase_connection(f"hbase://{hbase.address}/{new_name()}")
    store = HbaseStore(connection)
    store.apply(StoreBatch(rows=[row(1)]), [position(1, 0)])
    before = ledger_text(connection)
    attempt = store.begin([position(3, 1)])
    assert attempt is not None
    write_rows(connection, attempt, StoreBatch(rows=[row(2)]))
    set_ledger_back(connection, before)
    with pytest.raises(AttemptForgotten):
        store.commit(attempt, [position(3, 1)])
    assert store.begin([position(3, 1)]) == attempt
    write_rows(connection, attempt, StoreBatch(rows=[row(2), row(3)]))
    store.commit(attempt, [position(3, 1)])
    found, _ = store.query(Query(), PageRequest())
    assert sorted(one.record_id for one in found) == ["id-1", "id-2", "id-3"]

    before = ledger_text(connection)
    left = store.begin([position(9, 3)])
    assert left is not None
    set_ledger_back(connection, before)
    other = store.begin([position(7, 3)])
    assert other is not None
    assert other.failed == (left.begun,), "other offsets: what is under that number never counts"

    store.commit(other, [position(7, 3)])
    before = ledger_text(connection)
    done = store.begin([position(8, 7)])
    assert done is not None
    store.commit(done, [position(8, 7)])
    set_ledger_back(connection, before)
    following = store.begin([position(9, 7)])
    assert following is not None
    assert following.failed == other.failed, "what was committed is not given up"
    store.close()


def ledger_text(connection: HbaseConnection) -> bytes:
    with connection.session() as session:
        _, written = read_ledger(session)
    assert written is not None
    return written


def set_ledger_back(connection: HbaseConnection, before: bytes) -> None:
    """As if the beginning of the newest attempt had never been written."""
    with connection.session() as session:
        _, written = read_ledger(session)
        assert session.compare_and_put(tables.LEDGER, HEAD_ROW, HEAD, written, before)


def test_no_server_is_told_at_the_first_call() -> None:
    """A reader may be opened before HBase runs; a question is answered by an error, not by nothing."""
    reader = open_store("hbase://127.0.0.1:1/name")
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        reader.counts()
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1"):
        open_store("hbase://127.0.0.1:1/name", "write")


def test_a_line_that_the_server_closed_while_it_was_idle_is_opened_anew(
    hbase: Hbase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a driver whose tasks wrote for longer than a Thrift server waits for a call (60 s)
    failed at its commit."""
    used_just_now, idle = (hbase_connection(f"hbase://{hbase.address}/x")[0] for _ in range(2))
    for connection in (used_just_now, idle):
        with connection.session() as session:
            session.tables()
    hbase.kill_thrift()
    hbase.start_thrift()
    hbase.wait_until_ready()
    with pytest.raises(StoreUnavailable), used_just_now.session() as session:
        session.tables()
    monkeypatch.setattr("ingest.store.hbase.connection.IDLE_S", 0.0)
    with idle.session() as session:
        session.tables()
