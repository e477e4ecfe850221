"""Raft state machines of a quorum in virtual time, with a network and disks that fail on command.

The state machines are the real ones; this file is their shell and executes their effects on logs
in memory. Every step is checked: one leader per epoch, nothing committed is lost or changed, a
leader has everything committed, watermarks never fall.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count

from broker.controller.kraft.raft.messages import (
    AppendRecords,
    AppendVoters,
    BecameLeader,
    BeginEpoch,
    Effect,
    ElectionState,
    EndEpoch,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    FlushLog,
    HighWatermarkAdvanced,
    LeaderChanged,
    OffsetAndEpoch,
    PersistElectionState,
    QuorumResponse,
    RaftRequest,
    SendRequest,
    SnapshotChunk,
    SnapshotComplete,
    Tick,
    Truncate,
    Vote,
)
from broker.controller.kraft.raft.quorum_state import QuorumConfig
from broker.controller.kraft.raft.raft import Raft
from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.raft.voter_changes import VoterChangeResult
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterSet, VoterSetHistory
from bus.errors import ErrorCode

ZERO = OffsetAndEpoch(0, 0)
REQUEST_TIMEOUT_MS = 2000
FETCH_ENTRIES = 5


def key(node_id: int) -> ReplicaKey:
    """The replica key of a node in these worlds."""
    return ReplicaKey(node_id, bytes([node_id]) * 16)


def voter_set(ids: Iterable[int]) -> VoterSet:
    """The set of these nodes as voters."""
    return VoterSet.of(Voter(key(one)) for one in ids)


@dataclass(frozen=True)
class QuorumEntry:
    """One record. `voters` makes it a VotersRecord."""

    epoch: int
    value: str
    voters: tuple[int, ...] | None = None


class Packed(bytes):
    """Entries on the network; each counts as one byte, so their number is their size."""

    entries: list[QuorumEntry]


def packed(entries: list[QuorumEntry]) -> Packed:
    """Encodes entries."""
    made = Packed(len(entries))
    made.entries = entries
    return made


def unpacked(data: bytes | memoryview) -> list[QuorumEntry]:
    """Decodes what `packed` encoded."""
    return data.entries if isinstance(data, Packed) else []


@dataclass
class MemoryLog:
    """A log in memory with one snapshot. A power loss drops unflushed entries."""

    start: OffsetAndEpoch = ZERO
    entries: list[QuorumEntry] = field(default_factory=list)
    flushed_offset: int = 0
    prefix: list[QuorumEntry] = field(default_factory=list)
    latest_snapshot: OffsetAndEpoch | None = None

    @property
    def end(self) -> OffsetAndEpoch:
        epoch = self.entries[-1].epoch if self.entries else self.start.epoch
        return OffsetAndEpoch(self.start.offset + len(self.entries), epoch)

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """Does what KafkaRaftLog.endOffsetForEpoch does."""
        if epoch >= self.end.epoch:
            return self.end
        if epoch < self.start.epoch:
            return self.start
        found = self.start
        for at, entry in enumerate(self.entries):
            if entry.epoch > epoch:
                break
            found = OffsetAndEpoch(self.start.offset + at + 1, entry.epoch)
        return found

    def all(self) -> list[QuorumEntry]:
        """All entries from offset 0, including those in the snapshot."""
        return [*self.prefix, *self.entries]

    def read(self, offset: int) -> list[QuorumEntry]:
        """Returns some entries starting at `offset`."""
        at = offset - self.start.offset
        return self.entries[at : at + FETCH_ENTRIES]

    def append(self, entries: Iterable[QuorumEntry]) -> None:
        """Appends at the end."""
        self.entries += entries

    def flush(self) -> None:
        """Makes all entries survive a crash."""
        self.flushed_offset = self.end.offset

    def truncate(self, offset: int) -> None:
        """Drops `offset` and everything after it."""
        del self.entries[max(offset - self.start.offset, 0) :]
        self.flushed_offset = min(self.flushed_offset, self.end.offset)

    def compact(self, offset: int) -> None:
        """Replaces everything below `offset` by a snapshot."""
        kept = self.all()
        self.start = OffsetAndEpoch(offset, kept[offset - 1].epoch)
        self.latest_snapshot = self.start
        self.prefix, self.entries = kept[:offset], kept[offset:]


@dataclass
class QuorumWaitingFetch:
    """A fetch waiting at the leader."""

    request: Fetch
    until_ms: int
    reply: Callable[[FetchResponse], None]


class RaftReplica:
    """One node: the content of its disk, and its state machine while it runs."""

    def __init__(self, world: QuorumWorld, node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.log = MemoryLog()
        self.state = ElectionState()
        self.alive = False
        self.waiting: list[QuorumWaitingFetch] = []
        self.pieces: list[QuorumEntry] = []
        self.raft: Raft

    # -- life -------------------------------------------------------------------------------

    def start(self, static: VoterSet | None) -> None:
        """Starts from the content of the disk."""
        history = VoterSetHistory(static)
        for offset, entry in enumerate(self.log.all()):
            if entry.voters is not None:
                history.add(offset, voter_set(entry.voters))
        self.alive = True
        self.waiting = []
        self.raft = Raft(
            key(self.id), self.log, history, self.state, self.world.tick(),
            self.world.config, bootstrap=[one for one in self.world.ids if one != self.id],
        )  # fmt: skip
        if self.log.start.offset:
            self.raft.on_snapshot_loaded(self.log.start.offset, None, keep_voters=True)
        self.run_until_idle()

    def crash(self, keep_cache: bool) -> None:
        """Kills the process; without the page cache unflushed entries are lost, too."""
        self.alive = False
        if not keep_cache:
            self.log.truncate(self.log.flushed_offset)
        else:
            self.log.flush()
        self.world.on_crash(self.id)

    # -- the shell --------------------------------------------------------------------------

    def run_until_idle(self) -> None:
        """Does what RaftNode does."""
        while self.alive:
            effects = self.raft.drain_effects()
            if not effects:
                self.raft.poll(self.world.tick())
                effects = self.raft.drain_effects()
                if not effects:
                    break
            for effect in effects:
                self.execute(effect)
        self.wake()
        if self.alive:
            self.world.arm(self)

    def execute(self, effect: Effect) -> None:
        """Executes one effect."""
        world = self.world
        match effect:
            case PersistElectionState(state):
                self.state = state
            case SendRequest(to, request):
                world.send(self.id, to, request)
            case FlushLog():
                self.log.flush()
            case Truncate(offset):
                world.note(f"{self.id} truncates to {offset}")
                self.log.truncate(offset)
                self.log.flush()
                self.raft.on_truncated(self.log.end.offset)
            case AppendRecords(records):
                self.append_fetched(unpacked(records))
            case SnapshotChunk(_, position, data):
                self.pieces = unpacked(data) if not position else [
                    *self.pieces, *unpacked(data)
                ]
            case SnapshotComplete(snapshot):
                self.install_snapshot(snapshot)
            case BecameLeader(epoch, granting):
                world.on_leader(self, epoch)
                world.note(f"{self.id} leads epoch {epoch} by the votes of {list(granting)}")
                self.log.append([QuorumEntry(epoch, "leader")])
                world.flush_soon(self)
            case AppendVoters(voters):
                world.note(f"{self.id} appends voters {list(voters.ids)}")
                self.log.append([QuorumEntry(self.raft.epoch, "voters", voters.ids)])
                self.raft.on_voters(self.log.end.offset - 1, voters)
                world.flush_soon(self)
            case LeaderChanged(leader_id, epoch):
                if leader_id not in (-1, self.id):
                    world.note(f"{self.id} follows {leader_id} in epoch {epoch}")
            case HighWatermarkAdvanced(offset):
                world.on_committed(self, offset)
                self.raft.on_committed(world.tick())

    def append_fetched(self, entries: list[QuorumEntry]) -> None:
        """Appends, flushes and reports new voters to the state machine."""
        first = self.log.end.offset
        self.log.append(entries)
        self.log.flush()
        for at, entry in enumerate(entries):
            if entry.voters is not None:
                self.raft.on_voters(first + at, voter_set(entry.voters))
        self.raft.on_appended()

    def install_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """Installs the snapshot and restarts the log after it."""
        self.world.note(f"{self.id} takes snapshot {tuple(snapshot)}")
        assert len(self.pieces) == snapshot.offset
        self.log.prefix, self.log.entries = self.pieces, []
        self.log.start = self.log.latest_snapshot = snapshot
        self.log.flush()
        sets = [one.voters for one in self.pieces if one.voters is not None]
        self.raft.on_snapshot_loaded(
            snapshot.offset, voter_set(sets[-1]) if sets else None
        )

    def flush(self) -> None:
        """Flushes at the end of the leader's loop iteration."""
        if self.alive:
            self.log.flush()
            self.raft.on_flushed()
            self.run_until_idle()

    def write(self, value: str) -> bool:
        """Appends as the leader."""
        if not self.alive or self.raft.role is not RaftRole.LEADER:
            return False
        self.log.append([QuorumEntry(self.raft.epoch, value)])
        self.world.flush_soon(self)
        self.wake()
        return True

    # -- requests of others -----------------------------------------------------------------

    def receive(self, request: RaftRequest, answer: Callable[[QuorumResponse], None]) -> None:
        """Handles a request of another node."""
        raft, now = self.raft, self.world.tick()
        match request:
            case Vote():
                found: QuorumResponse = raft.on_vote(request, now)
            case BeginEpoch():
                found = raft.on_begin_epoch(request, now)
            case EndEpoch():
                found = raft.on_end_epoch(request, now)
            case FetchSnapshot():
                found = self.snapshot_piece(raft.on_fetch_snapshot(request, now), request)
            case Fetch():
                self.fetch(request, answer)
                return
        self.run_until_idle()
        answer(found)

    def fetch(self, request: Fetch, answer: Callable[[FetchResponse], None]) -> None:
        """Answers the fetch or lets it wait."""
        found = self.raft.on_fetch(request, self.world.tick(), may_wait=request.max_wait_ms > 0)
        if found is None:
            until_ms = self.world.now_ms + request.max_wait_ms
            self.waiting.append(QuorumWaitingFetch(request, until_ms, answer))
            self.world.at(until_ms, self.wake)
        else:
            answer(self.with_records(found))
        self.run_until_idle()

    def wake(self) -> None:
        """Retries the waiting fetches."""
        if not self.alive:
            return
        waiting, self.waiting = self.waiting, []
        for parked in waiting:
            may_wait = self.world.now_ms < parked.until_ms
            found = self.raft.on_fetch(
                parked.request, self.world.tick(), may_wait=may_wait, is_retry=True
            )
            if found is None:
                self.waiting.append(parked)
            else:
                parked.reply(self.with_records(found))

    def with_records(self, answer: FetchResponse) -> FetchResponse:
        """Adds the records to which the state machine only refers."""
        if answer.read_from is None:
            return answer
        return replace(answer, records=packed(self.log.read(answer.read_from)))

    def snapshot_piece(self, answer: FetchSnapshotResponse, request: FetchSnapshot) -> FetchSnapshotResponse:
        """Returns a part of a snapshot; each entry counts as one byte."""
        if answer.error is not ErrorCode.NONE:
            return answer
        if request.snapshot != self.log.latest_snapshot:
            return replace(answer, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        some = self.log.prefix[request.position : request.position + FETCH_ENTRIES]
        return replace(
            answer, size=len(self.log.prefix), position=request.position, data=packed(some)
        )


class QuorumWorld:
    """All nodes and their network, driven by one seed."""

    def __init__(
        self,
        ids: Iterable[int],
        seed: int = 0,
        *,
        static: Iterable[int] | None = None,
        delay_ms: tuple[int, int] = (1, 1),
        loss: float = 0.0,
        config: QuorumConfig | None = None,
        begin: Iterable[QuorumEntry] = (),
    ) -> None:
        """`begin`: committed entries with which every log starts; the voters are those it names."""
        self.ids = tuple(ids)
        self.config = config or QuorumConfig()
        self.random = random.Random(seed)
        self.delay_ms = delay_ms
        self.loss = loss
        self.now_ms = 0
        self.lines: list[str] = []
        self.cut: set[frozenset[int]] = set()
        self.committed: list[QuorumEntry] = list(begin)
        self.static = None if self.committed else voter_set(self.ids if static is None else static)
        self.leaders: dict[int, int] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._armed: dict[int, int] = {}
        self._flushing: set[int] = set()
        self.replicas = {one: RaftReplica(self, one) for one in self.ids}
        for replica in self.replicas.values():
            replica.log.append(self.committed)
            replica.log.flush()
            replica.start(self.static)

    # -- time -------------------------------------------------------------------------------

    def tick(self) -> Tick:
        return Tick(self.now_ms, self.random.random())

    def at(self, when_ms: int, action: Callable[[], None]) -> None:
        """Schedules a call."""
        heapq.heappush(self._queue, (max(when_ms, self.now_ms), next(self._order), action))

    def run_for(self, duration_ms: int) -> None:
        """Lets time pass."""
        until_ms = self.now_ms + duration_ms
        while self._queue and self._queue[0][0] <= until_ms:
            when_ms, _, action = heapq.heappop(self._queue)
            self.now_ms = when_ms
            action()
        self.now_ms = until_ms

    def arm(self, replica: RaftReplica) -> None:
        """Schedules the state machine's next deadline."""
        deadline_ms = max(replica.raft.deadline_ms, self.now_ms + 1)
        if self._armed.get(replica.id) == deadline_ms or deadline_ms >= 1 << 61:
            return
        self._armed[replica.id] = deadline_ms

        def wake() -> None:
            if self._armed.get(replica.id) == deadline_ms and replica.alive:
                self._armed.pop(replica.id)
                replica.run_until_idle()

        self.at(deadline_ms, wake)

    def flush_soon(self, replica: RaftReplica) -> None:
        """Schedules the leader's flush at the end of its loop iteration."""
        if replica.id not in self._flushing:
            self._flushing.add(replica.id)

            def flush() -> None:
                self._flushing.discard(replica.id)
                replica.flush()

            self.at(self.now_ms, flush)

    # -- network ----------------------------------------------------------------------------

    def send(self, source: int, to: int, request: RaftRequest) -> None:
        """Sends a request; the request, its answer, both or neither may get lost."""
        sender, receiver = self.replicas[source], self.replicas[to]
        raft = sender.raft
        state = {"open": True}

        def finish(call: Callable[[Tick], None]) -> None:
            if state["open"] and sender.alive and sender.raft is raft:
                state["open"] = False
                call(self.tick())
                sender.run_until_idle()

        def fail(refused: bool) -> None:
            finish(lambda now: raft.on_request_failed(to, request, now, is_refused=refused))

        def answered(answer: QuorumResponse) -> None:
            if not self._is_lost(to, source):
                self.at(
                    self.now_ms + self._delay(),
                    lambda: finish(lambda now: raft.on_response(to, request, answer, now)),
                )

        def arrive() -> None:
            if not receiver.alive:
                self.at(self.now_ms + 1, lambda: fail(True))
            else:
                receiver.receive(request, answered)

        if not self._is_lost(source, to):
            self.at(self.now_ms + self._delay(), arrive)
        self.at(self.now_ms + REQUEST_TIMEOUT_MS, lambda: fail(False))

    def _is_lost(self, source: int, to: int) -> bool:
        return frozenset((source, to)) in self.cut or self.random.random() < self.loss

    def _delay(self) -> int:
        return self.random.randint(*self.delay_ms)

    def on_crash(self, node_id: int) -> None:
        """Resets the node's connections: its peers notice soon."""
        for other in self.replicas.values():
            if other.alive and other.id != node_id and not self._is_lost(node_id, other.id):
                raft = other.raft

                def lost(other: RaftReplica = other, raft: Raft = raft) -> None:
                    if other.alive and other.raft is raft:
                        raft.on_connection_lost(node_id, self.tick())
                        other.run_until_idle()

                self.at(self.now_ms + self._delay(), lost)

    # -- checks -----------------------------------------------------------------------------

    def note(self, line: str) -> None:
        """Adds a line to the transcript."""
        self.lines.append(f"{self.now_ms:>6} {line}")

    def on_leader(self, replica: RaftReplica, epoch: int) -> None:
        """Checks that an epoch has one leader, which has everything committed."""
        assert self.leaders.setdefault(epoch, replica.id) == replica.id, f"two lead {epoch}"
        held = replica.log.all()
        assert held[: len(self.committed)] == self.committed, f"{replica.id} lacks committed records"

    def on_committed(self, replica: RaftReplica, offset: int) -> None:
        """Checks that committed entries never change and are the same on all nodes."""
        held = replica.log.all()[:offset]
        assert len(held) == offset, "committed beyond the log's end"
        shorter = min(offset, len(self.committed))
        assert held[:shorter] == self.committed[:shorter], "two histories were committed"
        if offset > len(self.committed):
            self.committed = held
            self.note(f"committed up to {offset}")

    def check_log_matching(self) -> None:
        """Checks that two logs with the same epoch at an offset are equal up to that offset."""
        logs = [replica.log.all() for replica in self.replicas.values()]
        for at, one in enumerate(logs):
            for other in logs[at + 1 :]:
                same = [
                    index for index in range(min(len(one), len(other)))
                    if one[index].epoch == other[index].epoch
                ]
                if same:
                    assert one[: same[-1] + 1] == other[: same[-1] + 1], "logs do not match"

    # -- queries and commands ---------------------------------------------------------------

    @property
    def leader(self) -> RaftReplica | None:
        """The running leader of the newest epoch."""
        leading = [
            one for one in self.replicas.values()
            if one.alive and one.raft.role is RaftRole.LEADER
        ]
        return max(leading, key=lambda one: one.raft.epoch, default=None)

    def until_leader(self, patience_ms: int = 30_000) -> RaftReplica:
        """Lets time pass until an established leader exists."""
        until_ms = self.now_ms + patience_ms
        while self.now_ms < until_ms:
            leader = self.leader
            if leader is not None and leader.raft.leader_state.is_established:
                return leader
            self.run_for(10)
        raise AssertionError("nobody leads")

    def change_voters(self, request: Callable[[Raft], VoterChangeResult]) -> VoterChangeResult:
        """Requests a voter change from the leader."""
        leader = self.until_leader()
        result = request(leader.raft)
        leader.run_until_idle()
        return result

    def partition(self, *groups: Iterable[int]) -> None:
        """Cuts all connections between nodes of different groups."""
        sides = [frozenset(group) for group in groups]
        self.cut = {
            frozenset((a, b))
            for a in self.ids for b in self.ids
            if a < b and not any(a in side and b in side for side in sides)
        }  # fmt: skip

    def heal(self) -> None:
        """Restores all connections."""
        self.cut = set()

