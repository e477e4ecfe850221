"""What the metadata log says of epochs older than all it still has: they ended with the snapshot."""

from __future__ import annotations

from pathlib import Path

from broker.clock.real import RealClock
from broker.config.views import BrokerConfig
from broker.controller.kraft.raft.messages import OffsetAndEpoch
from broker.controller.kraft.storage.raft_log import RaftLog
from broker.disk.real import RealDisk
from bus.protocol.generated.metadata_records import ConfigRecord

SNAPSHOT = OffsetAndEpoch(4, 3)


def opened(root: Path) -> RaftLog:
    return RaftLog(str(root), disk=RealDisk(), clock=RealClock(), config=BrokerConfig({}))


def put(log: RaftLog, epoch: int) -> None:
    record = ConfigRecord(resource_type=2, resource_name="t", name="n", value="v")
    log.append([(record, 0)] * 2, epoch)
    flush = log.begin_flush()
    assert flush is not None
    log.force(flush)
    log.mark_flushed(flush)


def test_an_epoch_that_is_not_known_any_more_ended_where_the_snapshot_does(tmp_path: Path) -> None:
    """Epochs 1 and 3 are in the snapshot, 5 begins behind it: a follower that has records of epoch
    4 is told of epoch 3, not that epoch 4 ended there. The same after a restart."""
    log = opened(tmp_path)
    put(log, 1)
    put(log, 3)
    log.advance_high_watermark(SNAPSHOT.offset)
    log.snapshots.write(SNAPSHOT, [], None, 0)
    log.drop_before(SNAPSHOT)
    put(log, 5)
    for found in (log, opened(tmp_path)):
        assert (found.start, found.end) == (SNAPSHOT, OffsetAndEpoch(6, 5))
        assert found.end_of_epoch(3) == SNAPSHOT
        assert found.end_of_epoch(4) == SNAPSHOT
        assert found.end_of_epoch(1) == SNAPSHOT
