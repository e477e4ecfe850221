"""The partitions this broker has a replica of, and the requests that wait for them.

In: what the metadata says of partitions. Out: ``Partition`` objects, followers that copy, waiting
produces and fetches woken when something moves. Never: a decision about leaders or in-sync sets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from broker.clock.port import Clock, TaskHandle, monotonic_ms
from broker.clock.tasks import end
from broker.config.views import TopicConfig
from broker.disk.port import WouldWait
from broker.log.checkpoint import TopicPartition
from broker.log.cut import Cut
from broker.log.errors import LogError, found_no_room
from broker.log.log import Log
from broker.log.manager import LogManager, parent_of
from broker.log.records_in import AppendInfo
from broker.metadata.image import LOST_DIRECTORY, MetadataImage
from broker.metrics.registry import Metrics
from broker.peer.silence import Silence
from broker.purgatory.purgatory import Purgatory
from broker.purgatory.timer import Timer
from broker.replica.alter_partition import AlterPartitions
from broker.replica.directories import Assignments, takes_directory_offline
from broker.replica.fetch_sessions import FetchSessions
from broker.replica.fetchers import Fetchers
from broker.replica.leadership import IsrProposal
from broker.replica.measures import Measures
from broker.replica.moves import Moves
from broker.replica.new_replicas import NewReplicas
from broker.replica.partition import NO_LEADER, Partition
from broker.replica.port import Cluster
from broker.replica.proof import Proofs
from broker.replica.strays import settle_strays
from broker.replica.throttles import Throttles
from broker.replica.waking import Waking
from broker.replica.watermarks import HIGH_WATERMARKS, WatermarkCheckpoint
from bus.errors import ErrorCode

__all__ = ["HIGH_WATERMARKS", "ReplicaManager"]

log = logging.getLogger("broker.replica")

Known = Callable[[str, int, bytes | None], bool]


class ReplicaManager:
    """The replicas of one broker. Invariant: a partition here has its log in the log manager;
    `new` holds none that is here. Whoever asks for one by `get` does not see the difference.

    Without ``cluster`` (see ``join``) nothing is copied and no in-sync set changes.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        log_manager: LogManager,
        clock: Clock,
        timer: Timer,
        metrics: Metrics,
    ) -> None:
        self.broker_id = broker_id
        self.produce_purgatory = Purgatory("Produce", timer)
        self.fetch_purgatory = Purgatory("Fetch", timer)
        self.delete_records_purgatory = Purgatory("DeleteRecords", timer)
        self.proofs = Proofs(self.produce_purgatory, self.fetch_purgatory)
        self.leadership_listeners: list[Callable[[Partition], None]] = []
        self.on_directory_failed: Callable[[], None] | None = None
        self.fetch_sessions = FetchSessions(
            log_manager.config["max.incremental.fetch.session.cache.slots"],
            lambda: clock.random.randrange(1, (1 << 31) - 1),
        )
        self.throttles = Throttles(broker_id, log_manager.config, clock)
        self._logs = log_manager
        self._clock = clock
        self._cluster: Cluster | None = None
        self._fetchers: Fetchers | None = None
        self._alter: AlterPartitions | None = None
        self._assignments: Assignments | None = None
        self._partitions: dict[TopicPartition, Partition] = {}
        self.new = NewReplicas(clock, self._follow_new)
        self._unfollowed: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicPartition, bytes] = {}
        self._offline_directories: list[str] = []
        self._watermarks = WatermarkCheckpoint(log_manager)
        self._waking = Waking(self.fetch_purgatory, self.throttles, clock)
        self.moves = Moves(log_manager, clock, self.throttles.moves, self)
        log_manager.on_failure = self.on_disk_error
        log_manager.on_directory_failure = self._on_checkpoint_failure
        log_manager.on_released = self._on_released
        self._damaged_leaders: dict[int, Silence] = {}
        self._tasks: list[TaskHandle] = []
        self._settling: set[TaskHandle] = set()
        self.measures = Measures(metrics, self)

    def join(self, cluster: Cluster) -> None:
        """There are other brokers: copy from them, and change in-sync sets."""
        config = self._logs.config
        self._cluster = cluster
        self._fetchers = Fetchers(
            self.broker_id, self._clock, cluster, self, lambda name: int(config[name])
        )
        self._alter = AlterPartitions(
            self.broker_id, self._clock, cluster, self.measures.failed_isr_updates
        )
        self._assignments = Assignments(self.broker_id, self._clock, cluster)

    # --- what the metadata says ------------------------------------------------------------------

    def bring(self, topic: str, index: int, make: Callable[[], None]) -> None:
        """Have `make` create or change a partition: at once if it is here or new ones are not
        spread over turns, else in its turn or when somebody asks for it. See `new.go_on`."""
        if self.new.is_spread and (topic, index) not in self._partitions:
            self.new.put((topic, index), make)
        else:
            make()

    def has(self, topic: str, index: int) -> bool:
        """Whether the partition is here, or will be when its turn comes."""
        return (topic, index) in self._partitions or (topic, index) in self.new

    def create_partition(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        *,
        leader_id: int,
        leader_epoch: int,
        partition_epoch: int,
        replicas: Sequence[int],
        isr: Sequence[int],
        config: TopicConfig,
        adding: Sequence[int] = (),
        removing: Sequence[int] = (),
        directories: Sequence[bytes] = (),
    ) -> Partition:
        """Make a partition, or bring an existing one to what the controller says now."""
        partition = self._partitions.get((topic, index))
        if partition is not None and partition.topic_id != topic_id:
            self._keep_former(partition)
            partition = None
        if partition is None:
            try:
                self._check_not_lost((topic, index), topic_id, replicas, directories)
                partition = self._add(topic, topic_id, index, config)
            except LogError:
                self._tell_unusable((topic, index), topic_id, replicas)
                raise

        before = (partition.leader_id, partition.leader_epoch)
        partition.update(
            leader_id=leader_id,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            replicas=replicas,
            isr=isr,
            adding=adding,
            removing=removing,
        )
        if before != (partition.leader_id, partition.leader_epoch):
            self._follow(partition)
        self._tell_directory(partition, replicas, directories)
        return partition

    def _check_not_lost(
        self, key: TopicPartition, topic_id: bytes, replicas: Sequence[int],
        directories: Sequence[bytes],
    ) -> None:
        """A log that is nowhere may lie in a directory that could not be read when the broker
        started. It does not begin again elsewhere, unless the metadata place it in another one."""
        if not self._logs.dirs.failed or self._logs.get(*key) is not None:
            return
        here = dict(zip(replicas, directories, strict=False)).get(self.broker_id)
        ids = self._logs.directory_ids
        if here not in [ids[one] for one in self._logs.usable_directories]:
            self._offline[key] = topic_id

    def _add(self, topic: str, topic_id: bytes, index: int, config: TopicConfig) -> Partition:
        if (topic, index) in self._offline:
            raise self._offline_error((topic, index))
        if (topic, index) in self._logs.unusable.reasons:
            self._offline[topic, index] = topic_id
            raise self._offline_error((topic, index))
        partition_log = self._logs.create(topic, index, topic_id, config)
        if partition_log.config is not config:
            partition_log.reconfigure(config)
        partition = Partition(topic, topic_id, index, partition_log, self)
        self._watermarks.restore(partition_log)
        self._partitions[topic, index] = partition
        self.moves.take_up(partition)
        return partition

    def _keep_former(self, former: Partition) -> None:
        """The topic was made anew under its old name, and nobody told us to delete the old one."""
        self.stop_partition(former.topic, former.index)
        kept = self._logs.keep_stray(former.log)
        log.error("%s is of a topic that is gone; it is kept as %s", former.log.directory, kept)

    def _offline_error(self, key: TopicPartition) -> LogError:
        reason = self._logs.unusable.reasons.get(key, "its log directory has failed")
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def _tell_unusable(self, key: TopicPartition, topic_id: bytes, replicas: Sequence[int]) -> None:
        """The replica here is lost until somebody mends it: the controller is to elect others."""
        is_lost = key in self._logs.unusable.reasons and len(replicas) > 1
        if is_lost and self._assignments is not None:
            self._assignments.assign(topic_id, key[1], LOST_DIRECTORY)

    def _follow(self, partition: Partition) -> None:
        """Copy from the leader there is, or from nobody."""
        if self._fetchers is None:
            return
        if self.new.is_in_turn:
            self._unfollowed[partition.key] = partition
            return
        self._unfollowed.pop(partition.key, None)
        if partition.is_leader or partition.leader_id == NO_LEADER:
            self._fetchers.leave(partition)
        else:
            self._fetchers.follow(partition)
        self._fetchers.end_idle()

    def _follow_new(self) -> None:
        """Copy what was made in turns since the last time."""
        for partition in list(self._unfollowed.values()):
            self._follow(partition)

    def _tell_directory(
        self, partition: Partition, replicas: Sequence[int], directories: Sequence[bytes]
    ) -> None:
        """Where a broker has several log directories the controller must know which it is."""
        if self._assignments is None or not directories or self.broker_id not in replicas:
            return
        told = directories[list(replicas).index(self.broker_id)]
        if len(self._logs.directories) == 1 and told != LOST_DIRECTORY:
            return
        ours = self._logs.directory_ids[parent_of(partition.log)]
        if told != ours:
            self._assignments.assign(partition.topic_id, partition.index, ours)

    def lies_elsewhere(self, partition: Partition, /) -> None:
        """See ``MoveHost``."""
        self._watermarks.forget()
        if self._cluster is None:
            return
        topic = self._cluster.image().topics.get(partition.topic)
        if topic is not None and topic.topic_id == partition.topic_id:
            told = topic.partitions[partition.index]
            self._tell_directory(partition, told.replicas, told.directories)

    def resign_all(self) -> None:
        """Lead nothing from now on (our ZooKeeper session is over; another may lead by now)."""
        for partition in self.partitions():
            if partition.is_leader:
                partition.resign()

    def delete_partition(self, topic: str, index: int, *, is_last: bool = True) -> None:
        """The partition is gone: answer who waits for it and take its log away.

        ``is_last``: no other deletion follows at once, see ``LogManager.delete``.
        """
        self._offline.pop((topic, index), None)
        self.new.drop((topic, index))
        partition = self.find(topic, index)
        self.stop_partition(topic, index)
        try:
            self._logs.delete(topic, index, is_last=is_last)
        except LogError as error:
            log.error("%s-%d stays on the disk until the next start: %s", topic, index, error)
            if partition is not None:
                self.failed(partition, error)

    def stop_partition(self, topic: str, index: int) -> None:
        """Serve and copy the partition no more; its log stays."""
        partition = self._partitions.pop((topic, index), None)
        if partition is None:
            return
        self.moves.end(partition)
        self._unfollowed.pop(partition.key, None)
        if self._fetchers is not None:
            self._fetchers.leave(partition)
            self._fetchers.end_idle()
            self.measures.forget(topic)
        partition.resign()

    def remove_strays(self, image: MetadataImage) -> None:
        """Of logs that the metadata have not on this broker, delete those that others hold whole;
        the rest is put aside and kept, for it may be the metadata that are lost."""
        settle_strays(self._logs, image, self.broker_id)

    def update_configs(self, configs: Mapping[str, TopicConfig]) -> None:
        """New settings, by topic."""
        for partition in self.partitions():
            config = configs.get(partition.topic)
            if config is not None:
                partition.log.reconfigure(config)
                partition.reconsider_watermark()

    # --- finding ---------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> Partition:
        """The partition, made if it waits for its turn; or LogError UNKNOWN_TOPIC_OR_PARTITION or
        KAFKA_STORAGE_ERROR."""
        partition = self._partitions.get((topic, index))
        if partition is None and self.new.make((topic, index)):
            partition = self._partitions.get((topic, index))
        if partition is None:
            if (topic, index) in self._offline:
                raise self._offline_error((topic, index))
            raise LogError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def find(self, topic: str, index: int) -> Partition | None:
        """The partition, if it is here by now."""
        return self._partitions.get((topic, index))

    def partitions(self) -> list[Partition]:
        """All partitions here that are online."""
        return list(self._partitions.values())

    # --- Host: what partitions and fetchers call -------------------------------------------------

    @property
    def lag_time_ms(self) -> int:
        return int(self._logs.config["replica.lag.time.max.ms"])

    def monotonic_ms(self) -> int:
        return monotonic_ms(self._clock)

    def broker_epoch(self) -> int:
        return -1 if self._cluster is None else self._cluster.broker_epoch()

    def on_moved(self, partition: Partition, watermark_rose: bool, /) -> None:
        """Something was appended (visible at least to followers) or became visible to all."""
        key = partition.key
        if self.fetch_purgatory.has(key):
            self.fetch_purgatory.wake(key)
        if partition.watchers:
            self._waking.touch(partition)
        if watermark_rose or not partition.is_leader:
            if self.produce_purgatory.has(key):
                self.produce_purgatory.wake(key)
            if self.delete_records_purgatory.has(key):
                self.delete_records_purgatory.wake(key)

    async def until_read(self, waiting: WouldWait) -> None:
        """Until what a read would have waited for is in memory."""
        await self._logs.cold_reads.until_read(waiting)

    def flush_soon(self, partition: Partition, /) -> TaskHandle:
        """See ``Host``; the task that flushes."""
        return self._logs.flush_soon(partition.log)

    def _on_released(self, partition_log: Log) -> None:
        partition = self.find(partition_log.topic, partition_log.index)
        if partition is not None and partition.log is partition_log:
            partition.on_released()

    def is_eligible(self, broker_id: int, broker_epoch: int, /) -> bool:
        """See ``Host``."""
        if self._cluster is None:
            return True
        broker = self._cluster.image().brokers.get(broker_id)
        if broker is None or not broker.is_active:
            return False
        return broker_epoch == -1 or broker.epoch in (-1, broker_epoch)

    def on_follower_start(self, partition: Partition, /) -> None:
        """See ``Host``."""
        self.delete_records_purgatory.wake(partition.key)

    def low_watermark(self, partition: Partition) -> int | None:
        """The smallest log start over the partition's live replicas; None if we lead no more."""
        leadership = partition.leadership
        if leadership is None:
            return None
        return leadership.low_watermark(
            partition.log.log_start_offset, lambda broker_id: self.is_eligible(broker_id, -1)
        )

    def on_leadership(self, partition: Partition, /) -> None:
        """See ``Host``."""
        for listener in self.leadership_listeners:
            listener(partition)

    def propose(self, partition: Partition, proposal: IsrProposal, /) -> None:
        """See ``Host``."""
        (self.measures.isr_expands if proposal.grows else self.measures.isr_shrinks).mark()
        log.info(
            "%s-%d: asking for %s in sync instead of %s",
            partition.topic, partition.index, list(proposal.isr), partition.isr,
        )  # fmt: skip
        if self._alter is not None:
            self._alter.submit(partition, proposal)

    def copied(self, partition: Partition, info: AppendInfo, /) -> int:
        """See ``FetchHost``."""
        self.measures.replicated_in.mark(info.size_bytes)
        if self.broker_id in partition.adding:
            self.measures.reassigned_in.mark(info.size_bytes)
        return self.throttles.followed(partition, info.size_bytes)

    def truncated(self, partition: Partition, before: int, cut: Cut, /) -> TaskHandle:
        """See ``FetchHost``."""
        log.warning(
            "%s: cut from %d to %d, as the leader of epoch %d has it",
            partition.log.directory, before, partition.log.end_offset, partition.leader_epoch,
        )  # fmt: skip
        self.moves.on_truncated(partition)
        self.on_moved(partition, False)
        task = self._clock.spawn(self._settle(partition, partition.log, cut), name="truncation")
        self._settling = {one for one in self._settling if not one.done()} | {task}
        return task

    async def _settle(self, partition: Partition, cut_log: Log, cut: Cut) -> None:
        """Make a cut durable; see ``FetchHost.truncated``."""
        try:
            await self._logs.settle(cut_log, cut)
        except LogError as error:
            self.failed(partition, error)

    def failed(self, partition: Partition, error: LogError, /) -> None:
        """See ``Host``."""
        if error.code is ErrorCode.CORRUPT_MESSAGE and not partition.is_leader:
            self._refused(partition, error)
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            return
        if found_no_room(error):
            self._logs.no_room(parent_of(partition.log))
        if takes_directory_offline(partition, error):
            self.take_offline(parent_of(partition.log), error)

    def _refused(self, partition: Partition, error: LogError) -> None:
        """A leader's batch was damaged. Its followers come again and again: it is told seldom."""
        self.measures.refused(partition.leader_id)
        silence = self._damaged_leaders.setdefault(partition.leader_id, Silence())
        if silence.worth_saying(self._clock.monotonic()):
            log.error(
                "%s-%d: what broker %d sent for offset %d is damaged (%s) and is not taken: run "
                "`databus broker verify` there, and let another replica lead",
                partition.topic, partition.index, partition.leader_id, partition.log.end_offset,
                error,
            )  # fmt: skip

    # --- failed directories ----------------------------------------------------------------------

    @property
    def offline_count(self) -> int:
        """Replicas in failed directories."""
        return len(self._offline)

    @property
    def cordoned_dirs(self) -> tuple[bytes, ...]:
        """Ids of the directories that shall get no new replicas."""
        ids = self._logs.directory_ids
        return tuple(ids[one] for one in self._logs.config.cordoned_log_dirs if one in ids)

    @property
    def offline_dirs(self) -> tuple[bytes, ...]:
        """Ids of the directories that have failed, for the heartbeat."""
        ids = self._logs.directory_ids
        return tuple(ids[one] for one in self._offline_directories if one in ids)

    @property
    def is_all_offline(self) -> bool:
        """Whether no directory is left; a broker stops then."""
        return len(self._offline_directories) == len(self._logs.directories)

    def on_disk_error(self, partition_log: Log, error: LogError) -> None:
        """A flush or another work behind the log has failed."""
        partition = self.find(partition_log.topic, partition_log.index)
        if self.moves.owns(partition_log):
            self.moves.on_disk_error(partition_log, error)
        elif partition is not None and partition.log is partition_log:
            self.failed(partition, error)

    def _on_checkpoint_failure(self, directory: str, error: LogError) -> None:
        """A checkpoint was not written. On a full disk the older one stands, and promises less."""
        self._watermarks.forget()
        if not found_no_room(error):
            self.take_offline(directory, error)

    def take_offline(self, directory: str, error: LogError) -> None:
        """Serve nothing from a directory that has failed; the controller is told by heartbeat."""
        if directory in self._offline_directories:
            return
        log.error("log directory %s has failed and is offline until a restart: %s",
                  directory, error)  # fmt: skip
        self._offline_directories.append(directory)
        self.moves.lost(directory)
        for partition in self.partitions():
            if parent_of(partition.log) == directory:
                self._offline[partition.key] = partition.topic_id
                partition.is_offline = True
                self.stop_partition(partition.topic, partition.index)
        for lost in self._logs.logs():
            # No partition yet, its turn was to come. Begun anew in another directory it would be
            # empty, and in sync as far as the controller knows.
            if parent_of(lost) == directory:
                self._offline.setdefault((lost.topic, lost.index), lost.topic_id or b"")
        self._logs.abandon(directory, error)
        if self.on_directory_failed is not None:
            self.on_directory_failed()

    # --- work behind the partitions --------------------------------------------------------------

    def start(self) -> None:
        """Begin to write high watermarks down and to look for followers that do not keep up."""
        config = self._logs.config
        for name, every_ms, work in (
            (
                "highwatermark-checkpoint",
                config["replica.high.watermark.checkpoint.interval.ms"],
                self.checkpoint_high_watermarks,
            ),
            ("isr-expiration", self.lag_time_ms // 2, self.shrink_in_sync_sets),
        ):
            self._tasks.append(self._clock.spawn(self._every(every_ms, work), name=name))

    async def _every(self, every_ms: int, work: Callable[[], None]) -> None:
        while True:
            await self._clock.sleep(max(every_ms, 1) / 1000)
            work()

    async def stop(self) -> None:
        """Stop copying and write the watermarks a last time."""
        self.new.stop()
        await self.moves.stop()
        tasks, self._tasks = [*self._tasks, *self._settling], []
        await end(tasks)
        for ending in (self._fetchers, self._alter, self._assignments):
            if ending is not None:
                await ending.stop()
        self.checkpoint_high_watermarks()

    def shrink_in_sync_sets(self) -> None:
        """Propose in-sync sets without the followers that do not keep up; and whoever was waited
        for because it was about to join is waited for no more."""
        for partition in self.partitions():
            partition.consider_shrinking()
            partition.consider_growth()
            partition.reconsider_watermark()

    def on_brokers_changed(self) -> None:
        """Brokers were fenced or came back: whom a watermark waits for may be another now, and who
        has caught up meanwhile may be in sync."""
        for partition in self.partitions():
            partition.consider_growth()
            partition.reconsider_watermark()

    def checkpoint_high_watermarks(self) -> None:
        """Write the watermarks of all partitions, if any has changed."""
        self._watermarks.write(self._partitions.values())

    # --- figures ---------------------------------------------------------------------------------

    def max_lag(self) -> int:
        """Records the replica here that is furthest behind its leader lacks."""
        return 0 if self._fetchers is None else self._fetchers.max_lag()

    def failed_copies(self) -> int:
        """Partitions whose copying rests after an error."""
        return 0 if self._fetchers is None else self._fetchers.failed_count()

    def lag_of(self, partition: Partition) -> int:
        """Records one replica here lacks, as of its leader's last answer."""
        return 0 if self._fetchers is None else self._fetchers.lag_of(partition)

    def count_produced(self, topic: str, info: AppendInfo) -> None:
        """Take an append of a client into the topic's and the broker's totals."""
        self.measures.produced(topic, info)

    def count_fetched(self, partition: Partition, replica_id: int, size_bytes: int) -> None:
        """Take what a consumer (-1) or a follower is sent into the totals and the throttle."""
        self.measures.fetched(partition, replica_id, size_bytes)
        if replica_id >= 0:
            self.throttles.led(partition, replica_id, size_bytes)
