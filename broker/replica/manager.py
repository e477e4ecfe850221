"""The partitions of which this broker has a replica, and the requests that wait for them.

In: partitions as the metadata describe them. Out: ``Partition`` objects, fetchers, waiting produces
and fetches retried when an offset advances. Never: a decision about leaders or in-sync sets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from broker.clock.port import Clock, TaskHandle, monotonic_ms
from broker.clock.tasks import cancel_and_wait
from broker.config.views import TopicConfig
from broker.disk.port import WouldBlock
from broker.log.checkpoint import TopicPartition
from broker.log.errors import LogError, is_disk_full
from broker.log.log import Log
from broker.log.log_dirs import parent_of
from broker.log.manager import LogManager
from broker.log.segments import PendingTruncation
from broker.log.validation import AppendInfo
from broker.metadata.image import LOST_DIRECTORY, MetadataImage
from broker.metrics.registry import Metrics
from broker.peer.log_limiter import LogRateLimiter
from broker.purgatory.purgatory import Purgatory
from broker.purgatory.timer import Timer
from broker.replica.creation_queue import ReplicaCreationQueue
from broker.replica.fetch.fetcher_manager import FetcherManager
from broker.replica.fetch.leader_confirmation import LeaderConfirmation
from broker.replica.fetch.session_cache import FetchSessionCache
from broker.replica.fetch.wakeups import FetchWakeups
from broker.replica.isr_updates import AlterPartitionManager
from broker.replica.leader_state import IsrProposal
from broker.replica.logdir.assignments import AssignmentsManager, takes_directory_offline
from broker.replica.logdir.log_dir_mover import LogDirMover
from broker.replica.logdir.strays import handle_strays
from broker.replica.logdir.watermarks import HIGH_WATERMARKS, WatermarkCheckpoint
from broker.replica.metrics import ReplicaMetrics
from broker.replica.partition import NO_LEADER, Partition
from broker.replica.port import ClusterAccess
from broker.replica.quotas import ReplicationQuotas
from broker.replica.truncations import TruncationTasks
from bus.errors import ErrorCode

__all__ = ["HIGH_WATERMARKS", "ReplicaManager"]

log = logging.getLogger("broker.replica")

Known = Callable[[str, int, bytes | None], bool]


class ReplicaManager:
    """The replicas of one broker. Invariant: a partition here has its log in the log manager;
    `creation_queue` holds none that is here; `get` hides the difference.

    Without ``attach_cluster`` nothing is copied and no in-sync set changes.

    Whole, though long, as Kafka's of that name: metadata, logs, fetchers and waiting requests meet
    here, and each method of some lines hands a change of one on to the others.
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
        self.leader_confirmation = LeaderConfirmation(self.produce_purgatory, self.fetch_purgatory)
        self.leadership_listeners: list[Callable[[Partition], None]] = []
        self.on_directory_failed: Callable[[], None] | None = None
        self.fetch_sessions = FetchSessionCache(
            log_manager.config["max.incremental.fetch.session.cache.slots"],
            lambda: clock.random.randrange(1, (1 << 31) - 1),
        )
        self.replication_quotas = ReplicationQuotas(broker_id, log_manager.config, clock)
        self._logs = log_manager
        self._clock = clock
        self._cluster: ClusterAccess | None = None
        self._fetchers: FetcherManager | None = None
        self._isr_updates: AlterPartitionManager | None = None
        self._assignments: AssignmentsManager | None = None
        self._partitions: dict[TopicPartition, Partition] = {}
        self.creation_queue = ReplicaCreationQueue(clock, self._update_new_fetchers)
        self._without_fetcher: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicPartition, bytes] = {}
        self._offline_directories: list[str] = []
        self._watermark_checkpoint = WatermarkCheckpoint(log_manager)
        self._fetch_wakeups = FetchWakeups(self.fetch_purgatory, self.replication_quotas, clock)
        self.log_dir_mover = LogDirMover(
            log_manager, clock, self.replication_quotas.log_dir_moves, self
        )
        log_manager.on_failure = self.on_disk_error
        log_manager.on_directory_failure = self._on_checkpoint_failure
        log_manager.on_released = self._on_released
        self._damaged_leaders: dict[int, LogRateLimiter] = {}
        self._tasks: list[TaskHandle] = []
        self._truncations = TruncationTasks(
            log_manager, clock, self.produce_purgatory, self.on_log_error
        )
        self.metrics = ReplicaMetrics(metrics, self)

    def attach_cluster(self, cluster: ClusterAccess) -> None:
        """Connect to the other brokers: copy from them, and propose in-sync sets."""
        config = self._logs.config
        self._cluster = cluster
        self._fetchers = FetcherManager(
            self.broker_id, self._clock, cluster, self, lambda name: int(config[name])
        )
        self._isr_updates = AlterPartitionManager(
            self.broker_id, self._clock, cluster, self.metrics.failed_isr_updates
        )
        self._assignments = AssignmentsManager(self.broker_id, self._clock, cluster)

    # --- what the metadata says ------------------------------------------------------------------

    def create_soon(self, topic: str, index: int, make: Callable[[], None]) -> None:
        """Have `make` create or change a partition: at once if it is here or new ones are not
        spread over iterations, else later or when `get` asks for it. See `creation_queue.drain`."""
        if self.creation_queue.is_spread and (topic, index) not in self._partitions:
            self.creation_queue.put((topic, index), make)
        else:
            make()

    def has(self, topic: str, index: int) -> bool:
        """Whether the partition is here or waits in the creation queue."""
        return (topic, index) in self._partitions or (topic, index) in self.creation_queue

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
        """Create a partition, or update an existing one to the controller's present state."""
        partition = self._partitions.get((topic, index))
        if partition is not None and partition.topic_id != topic_id:
            self._keep_as_stray(partition)
            partition = None
        if partition is None:
            try:
                self._check_not_lost((topic, index), topic_id, replicas, directories)
                partition = self._add(topic, topic_id, index, config)
            except LogError:
                self._report_unusable((topic, index), topic_id, replicas)
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
            self._update_fetcher(partition)
        self._report_directory(partition, replicas, directories)
        return partition

    def _check_not_lost(
        self, key: TopicPartition, topic_id: bytes, replicas: Sequence[int],
        directories: Sequence[bytes],
    ) -> None:
        """A missing log may lie in a directory that could not be read when the broker started. It
        is not recreated elsewhere, unless the metadata place it in another directory."""
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
        self._watermark_checkpoint.restore(partition_log)
        self._partitions[topic, index] = partition
        self.log_dir_mover.resume(partition)
        return partition

    def _keep_as_stray(self, former: Partition) -> None:
        """The topic was recreated under its old name without a deletion that we heard of."""
        self.stop_partition(former.topic, former.index)
        kept = self._logs.keep_stray(former.log)
        log.error("%s is of a topic that is gone; it is kept as %s", former.log.directory, kept)

    def _offline_error(self, key: TopicPartition) -> LogError:
        reason = self._logs.unusable.reasons.get(key, "its log directory has failed")
        return LogError(ErrorCode.KAFKA_STORAGE_ERROR, reason)

    def _report_unusable(
        self, key: TopicPartition, topic_id: bytes, replicas: Sequence[int]
    ) -> None:
        """Report the replica here as lost until an operator repairs it, so that others are
        elected."""
        is_lost = key in self._logs.unusable.reasons and len(replicas) > 1
        if is_lost and self._assignments is not None:
            self._assignments.assign(topic_id, key[1], LOST_DIRECTORY)

    def _update_fetcher(self, partition: Partition) -> None:
        """Copy from the present leader, or stop copying if there is none."""
        if self._fetchers is None:
            return
        if self.creation_queue.is_draining:
            self._without_fetcher[partition.key] = partition
            return
        self._without_fetcher.pop(partition.key, None)
        if partition.is_leader or partition.leader_id == NO_LEADER:
            self._fetchers.remove(partition)
        else:
            self._fetchers.add(partition)
        self._fetchers.stop_idle()

    def _update_new_fetchers(self) -> None:
        """Start copying the replicas that the queue has created since the last call."""
        for partition in list(self._without_fetcher.values()):
            self._update_fetcher(partition)

    def _report_directory(
        self, partition: Partition, replicas: Sequence[int], directories: Sequence[bytes]
    ) -> None:
        """Report the log directory to the controller if the broker has several."""
        if self._assignments is None or not directories or self.broker_id not in replicas:
            return
        reported = directories[list(replicas).index(self.broker_id)]
        if len(self._logs.directories) == 1 and reported != LOST_DIRECTORY:
            return
        ours = self._logs.directory_ids[parent_of(partition.log)]
        if reported != ours:
            self._assignments.assign(partition.topic_id, partition.index, ours)

    def on_log_dir_changed(self, partition: Partition, /) -> None:
        """See ``LogDirMoverHost``."""
        self._watermark_checkpoint.forget()
        if self._cluster is None:
            return
        topic = self._cluster.image().topics.get(partition.topic)
        if topic is not None and topic.topic_id == partition.topic_id:
            registered = topic.partitions[partition.index]
            self._report_directory(partition, registered.replicas, registered.directories)

    def resign_all(self) -> None:
        """Lead nothing from now on (our ZooKeeper session ended; another broker may lead by
        now)."""
        for partition in self.partitions():
            if partition.is_leader:
                partition.resign()

    def delete_partition(self, topic: str, index: int, *, is_last: bool = True) -> None:
        """The partition was deleted: answer the requests that wait for it and delete its log.

        ``is_last``: no other deletion follows at once, see ``LogManager.delete``.
        """
        self._offline.pop((topic, index), None)
        self.creation_queue.drop((topic, index))
        partition = self.find(topic, index)
        self.stop_partition(topic, index)
        try:
            self._logs.delete(topic, index, is_last=is_last)
        except LogError as error:
            log.error("%s-%d stays on the disk until the next start: %s", topic, index, error)
            if partition is not None:
                self.on_log_error(partition, error)

    def stop_partition(self, topic: str, index: int) -> None:
        """Stop serving and copying the partition; its log stays."""
        partition = self._partitions.pop((topic, index), None)
        if partition is None:
            return
        self.log_dir_mover.end(partition)
        self._without_fetcher.pop(partition.key, None)
        if self._fetchers is not None:
            self._fetchers.remove(partition)
            self._fetchers.stop_idle()
            self.metrics.forget(topic)
        partition.resign()

    def remove_strays(self, image: MetadataImage) -> None:
        """Of logs that the metadata do not have on this broker, delete those that others hold
        whole; the rest is renamed and kept, because the metadata may be what is lost."""
        handle_strays(self._logs, image, self.broker_id)

    def update_configs(self, configs: Mapping[str, TopicConfig]) -> None:
        """New settings, by topic."""
        for partition in self.partitions():
            config = configs.get(partition.topic)
            if config is not None:
                partition.log.reconfigure(config)
                partition.maybe_advance_high_watermark()

    # --- finding ---------------------------------------------------------------------------------

    def get(self, topic: str, index: int) -> Partition:
        """The partition, created now if it waits in the queue; or LogError
        UNKNOWN_TOPIC_OR_PARTITION or KAFKA_STORAGE_ERROR."""
        partition = self._partitions.get((topic, index))
        if partition is None and self.creation_queue.create_now((topic, index)):
            partition = self._partitions.get((topic, index))
        if partition is None:
            if (topic, index) in self._offline:
                raise self._offline_error((topic, index))
            raise LogError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return partition

    def find(self, topic: str, index: int) -> Partition | None:
        """The partition, if it has been created."""
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

    def on_log_advanced(self, partition: Partition, watermark_rose: bool, /) -> None:
        """Records were appended (visible at least to followers) or became visible to all."""
        key = partition.key
        if self.fetch_purgatory.has(key):
            self.fetch_purgatory.wake(key)
        if partition.watchers:
            self._fetch_wakeups.mark(partition)
        if watermark_rose or not partition.is_leader:
            if self.produce_purgatory.has(key):
                self.produce_purgatory.wake(key)
            if self.delete_records_purgatory.has(key):
                self.delete_records_purgatory.wake(key)

    async def until_read(self, waiting: WouldBlock) -> None:
        """Wait until the bytes of a read are in memory."""
        await self._logs.cold_reads.until_read(waiting)

    def flush_soon(self, partition: Partition, /) -> TaskHandle:
        """See ``PartitionHost``; the task that flushes."""
        return self._logs.flush_soon(partition.log)

    def _on_released(self, partition_log: Log) -> None:
        partition = self.find(partition_log.topic, partition_log.index)
        if partition is not None and partition.log is partition_log:
            partition.on_released()

    def is_eligible(self, broker_id: int, broker_epoch: int, /) -> bool:
        """See ``PartitionHost``."""
        if self._cluster is None:
            return True
        broker = self._cluster.image().brokers.get(broker_id)
        if broker is None or not broker.is_active:
            return False
        return broker_epoch == -1 or broker.epoch in (-1, broker_epoch)

    def on_follower_start(self, partition: Partition, /) -> None:
        """See ``PartitionHost``."""
        self.delete_records_purgatory.wake(partition.key)

    def low_watermark(self, partition: Partition) -> int | None:
        """The smallest log start over the partition's live replicas; None if we do not lead it."""
        leader = partition.leader_state
        if leader is None:
            return None
        return leader.low_watermark(
            partition.log.log_start_offset, lambda broker_id: self.is_eligible(broker_id, -1)
        )

    def on_leadership_changed(self, partition: Partition, /) -> None:
        """See ``PartitionHost``."""
        for listener in self.leadership_listeners:
            listener(partition)

    def propose(self, partition: Partition, proposal: IsrProposal, /) -> None:
        """See ``PartitionHost``."""
        (self.metrics.isr_expands if proposal.expands else self.metrics.isr_shrinks).mark()
        log.info(
            "%s-%d: asking for %s in sync instead of %s",
            partition.topic, partition.index, list(proposal.isr), partition.isr,
        )  # fmt: skip
        if self._isr_updates is not None:
            self._isr_updates.submit(partition, proposal)

    def on_replicated(self, partition: Partition, info: AppendInfo, /) -> int:
        """See ``FetchHost``."""
        self.metrics.replicated_in.mark(info.size_bytes)
        if self.broker_id in partition.adding:
            self.metrics.reassigned_in.mark(info.size_bytes)
        return self.replication_quotas.record_inbound(partition, info.size_bytes)

    def on_truncated(
        self, partition: Partition, before: int, truncation: PendingTruncation, /
    ) -> TaskHandle:
        """See ``FetchHost``."""
        log.warning(
            "%s: cut from %d to %d, as the leader of epoch %d has it",
            partition.log.directory, before, partition.log.end_offset, partition.leader_epoch,
        )  # fmt: skip
        self.on_log_advanced(partition, False)
        return self.on_restarted(partition, truncation)

    def on_restarted(self, partition: Partition, truncation: PendingTruncation, /) -> TaskHandle:
        """See ``PartitionHost``."""
        self.log_dir_mover.on_truncated(partition)
        return self._truncations.begin(partition, truncation)

    def on_log_error(self, partition: Partition, error: LogError, /) -> None:
        """See ``PartitionHost``."""
        if error.code is ErrorCode.CORRUPT_MESSAGE and not partition.is_leader:
            self._on_corrupt_fetch(partition, error)
        if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
            return
        if is_disk_full(error):
            self._logs.on_disk_full(parent_of(partition.log))
        if takes_directory_offline(partition, error):
            self.take_offline(parent_of(partition.log), error)

    def _on_corrupt_fetch(self, partition: Partition, error: LogError) -> None:
        """A leader's batch was damaged. Its followers retry often, so the log line is
        rate-limited."""
        self.metrics.on_corrupt_fetch(partition.leader_id)
        limiter = self._damaged_leaders.setdefault(partition.leader_id, LogRateLimiter())
        if limiter.should_log(self._clock.monotonic()):
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
        """Ids of the directories that must not get new replicas."""
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
        """A flush or other maintenance of the log has failed."""
        partition = self.find(partition_log.topic, partition_log.index)
        if self.log_dir_mover.owns(partition_log):
            self.log_dir_mover.on_disk_error(partition_log, error)
        elif partition is not None and partition.log is partition_log:
            self.on_log_error(partition, error)

    def _on_checkpoint_failure(self, directory: str, error: LogError) -> None:
        """A checkpoint was not written. On a full disk the older one remains, which is safe."""
        self._watermark_checkpoint.forget()
        if not is_disk_full(error):
            self.take_offline(directory, error)

    def take_offline(self, directory: str, error: LogError) -> None:
        """Serve nothing from a directory that has failed; the heartbeat reports it."""
        if directory in self._offline_directories:
            return
        log.error("log directory %s has failed and is offline until a restart: %s",
                  directory, error)  # fmt: skip
        self._offline_directories.append(directory)
        self.log_dir_mover.on_directory_failed(directory)
        for partition in self.partitions():
            if parent_of(partition.log) == directory:
                self._offline[partition.key] = partition.topic_id
                partition.is_offline = True
                self.stop_partition(partition.topic, partition.index)
        for lost in self._logs.logs():
            # Not created yet, it waits in the queue. Recreated in another directory it would be
            # empty, and in sync as far as the controller knows.
            if parent_of(lost) == directory:
                self._offline.setdefault((lost.topic, lost.index), lost.topic_id or b"")
        self._logs.handle_directory_failure(directory, error)
        if self.on_directory_failed is not None:
            self.on_directory_failed()

    # --- periodic work ---------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to checkpoint high watermarks and to check for followers that do not keep up."""
        config = self._logs.config
        for name, every_ms, work in (
            (
                "highwatermark-checkpoint",
                config["replica.high.watermark.checkpoint.interval.ms"],
                self.checkpoint_high_watermarks,
            ),
            ("isr-expiration", self.lag_time_ms // 2, self.update_in_sync_sets),
        ):
            self._tasks.append(self._clock.spawn(self._every(every_ms, work), name=name))

    async def _every(self, every_ms: int, work: Callable[[], None]) -> None:
        while True:
            await self._clock.sleep(max(every_ms, 1) / 1000)
            work()

    async def stop(self) -> None:
        """Stop copying and checkpoint the watermarks a last time."""
        self.creation_queue.stop()
        await self.log_dir_mover.stop()
        tasks, self._tasks = [*self._tasks, *self._truncations.pending], []
        await cancel_and_wait(tasks)
        for ending in (self._fetchers, self._isr_updates, self._assignments):
            if ending is not None:
                await ending.stop()
        self.checkpoint_high_watermarks()

    def update_in_sync_sets(self) -> None:
        """Propose in-sync sets without the followers that do not keep up, and stop holding the
        high watermark back for followers that were about to join."""
        for partition in self.partitions():
            partition.maybe_shrink_isr()
            partition.maybe_expand_isr()
            partition.maybe_advance_high_watermark()

    def on_brokers_changed(self) -> None:
        """Brokers were fenced or unfenced: other followers may hold the high watermark back now,
        and followers that caught up meanwhile may join the in-sync set."""
        for partition in self.partitions():
            partition.maybe_expand_isr()
            partition.maybe_advance_high_watermark()

    def checkpoint_high_watermarks(self) -> None:
        """Checkpoint the high watermarks of all partitions, if any has changed."""
        self._watermark_checkpoint.write(self._partitions.values())

    # --- figures ---------------------------------------------------------------------------------

    def max_lag(self) -> int:
        """Records that the replica furthest behind its leader lacks."""
        return 0 if self._fetchers is None else self._fetchers.max_lag()

    def failed_partition_count(self) -> int:
        """Partitions whose copying is delayed after an error."""
        return 0 if self._fetchers is None else self._fetchers.failed_count()

    def lag_of(self, partition: Partition) -> int:
        """Records one replica here lacks, as of its leader's last answer."""
        return 0 if self._fetchers is None else self._fetchers.lag_of(partition)

    def count_appended(self, topic: str, info: AppendInfo) -> None:
        """Count what a leader appended for the topic and the broker."""
        self.metrics.appended(topic, info)

    def count_fetched(self, partition: Partition, replica_id: int, size_bytes: int) -> None:
        """Count what a consumer (-1) or a follower is sent, also for the throttle."""
        self.metrics.fetched(partition, replica_id, size_bytes)
        if replica_id >= 0:
            self.replication_quotas.record_outbound(partition, replica_id, size_bytes)
