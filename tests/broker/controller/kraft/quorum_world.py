"""Machines of a quorum on virtual time, with a network and disks that fail as they are told.

The machines are the real ones; the shell is this file: it carries their effects out on logs in
memory. Every step is judged: one leader per epoch, nothing committed is lost or changed, a leader
has all that is committed, watermarks never fall.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import count

from broker.controller.kraft.core import Settings
from broker.controller.kraft.machine import Machine
from broker.controller.kraft.membership import Outcome
from broker.controller.kraft.messages import (
    Answer,
    AppendRecords,
    AppendVoters,
    BecameLeader,
    BeginEpoch,
    Committed,
    Effect,
    ElectionState,
    EndEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Flush,
    LeaderIs,
    Moment,
    OffsetAndEpoch,
    Persist,
    Request,
    Send,
    SnapshotAnswer,
    SnapshotComplete,
    SnapshotPiece,
    Truncate,
    Vote,
)
from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import ReplicaKey, Voter, VoterHistory, VoterSet
from bus.errors import ErrorCode

ZERO = OffsetAndEpoch(0, 0)
REQUEST_TIMEOUT_MS = 2000
FETCH_ENTRIES = 5


def key(node_id: int) -> ReplicaKey:
    """The replica of a node in these worlds."""
    return ReplicaKey(node_id, bytes([node_id]) * 16)


def voter_set(ids: Iterable[int]) -> VoterSet:
    """These nodes as voters."""
    return VoterSet.of(Voter(key(one)) for one in ids)


@dataclass(frozen=True)
class Entry:
    """One record. `voters` makes it a VotersRecord."""

    epoch: int
    value: str
    voters: tuple[int, ...] | None = None


class Packed(bytes):
    """Entries on the network: one byte for each, so that their number is their size."""

    entries: list[Entry]


def packed(entries: list[Entry]) -> Packed:
    """Entries as bytes."""
    made = Packed(len(entries))
    made.entries = entries
    return made


def unpacked(data: bytes | memoryview) -> list[Entry]:
    """Back again."""
    return data.entries if isinstance(data, Packed) else []


@dataclass
class MemoryLog:
    """A log in memory, with one snapshot. What is not flushed is lost in a crash."""

    start: OffsetAndEpoch = ZERO
    entries: list[Entry] = field(default_factory=list)
    flushed_offset: int = 0
    prefix: list[Entry] = field(default_factory=list)
    latest_snapshot: OffsetAndEpoch | None = None

    @property
    def end(self) -> OffsetAndEpoch:
        epoch = self.entries[-1].epoch if self.entries else self.start.epoch
        return OffsetAndEpoch(self.start.offset + len(self.entries), epoch)

    def end_of_epoch(self, epoch: int) -> OffsetAndEpoch:
        """As KafkaRaftLog.endOffsetForEpoch."""
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

    def all(self) -> list[Entry]:
        """Everything from offset 0, what is in the snapshot too."""
        return [*self.prefix, *self.entries]

    def read(self, offset: int) -> list[Entry]:
        """Some entries from `offset` on."""
        at = offset - self.start.offset
        return self.entries[at : at + FETCH_ENTRIES]

    def append(self, entries: Iterable[Entry]) -> None:
        """At the end."""
        self.entries += entries

    def flush(self) -> None:
        """Everything survives a crash now."""
        self.flushed_offset = self.end.offset

    def truncate(self, offset: int) -> None:
        """Drop `offset` and what follows."""
        del self.entries[max(offset - self.start.offset, 0) :]
        self.flushed_offset = min(self.flushed_offset, self.end.offset)

    def compact(self, offset: int) -> None:
        """A snapshot takes the place of everything below `offset`."""
        kept = self.all()
        self.start = OffsetAndEpoch(offset, kept[offset - 1].epoch)
        self.latest_snapshot = self.start
        self.prefix, self.entries = kept[:offset], kept[offset:]


@dataclass
class Parked:
    """A fetch that waits at its leader."""

    ask: Fetch
    until_ms: int
    answer: Callable[[FetchAnswer], None]


class Replica:
    """One node: what survives on its disk, and its machine while it lives."""

    def __init__(self, world: World, node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.log = MemoryLog()
        self.state = ElectionState()
        self.alive = False
        self.parked: list[Parked] = []
        self.pieces: list[Entry] = []
        self.machine: Machine

    # -- life -------------------------------------------------------------------------------

    def start(self, static: VoterSet | None) -> None:
        """From what the disk holds."""
        history = VoterHistory(static)
        for offset, entry in enumerate(self.log.all()):
            if entry.voters is not None:
                history.add(offset, voter_set(entry.voters))
        self.alive = True
        self.parked = []
        self.machine = Machine(
            key(self.id), self.log, history, self.state, self.world.moment(),
            self.world.settings, bootstrap=[one for one in self.world.ids if one != self.id],
        )  # fmt: skip
        if self.log.start.offset:
            self.machine.on_snapshot_loaded(self.log.start.offset, None, keep_voters=True)
        self.settle()

    def crash(self, keep_cache: bool) -> None:
        """The process dies; without its page cache also what was not flushed."""
        self.alive = False
        if not keep_cache:
            self.log.truncate(self.log.flushed_offset)
        else:
            self.log.flush()
        self.world.on_crash(self.id)

    # -- the shell --------------------------------------------------------------------------

    def settle(self) -> None:
        """As RaftNode does it."""
        while self.alive:
            effects = self.machine.take_effects()
            if not effects:
                self.machine.poll(self.world.moment())
                effects = self.machine.take_effects()
                if not effects:
                    break
            for effect in effects:
                self.carry_out(effect)
        self.wake()
        if self.alive:
            self.world.arm(self)

    def carry_out(self, effect: Effect) -> None:
        """One effect."""
        world = self.world
        match effect:
            case Persist(state):
                self.state = state
            case Send(to, request):
                world.send(self.id, to, request)
            case Flush():
                self.log.flush()
            case Truncate(offset):
                world.tell(f"{self.id} truncates to {offset}")
                self.log.truncate(offset)
                self.log.flush()
                self.machine.on_truncated(self.log.end.offset)
            case AppendRecords(records):
                self.append_fetched(unpacked(records))
            case SnapshotPiece(_, position, data):
                self.pieces = unpacked(data) if not position else [
                    *self.pieces, *unpacked(data)
                ]
            case SnapshotComplete(snapshot):
                self.take_snapshot(snapshot)
            case BecameLeader(epoch, granting):
                world.on_leader(self, epoch)
                world.tell(f"{self.id} leads epoch {epoch} by the votes of {list(granting)}")
                self.log.append([Entry(epoch, "leader")])
                world.flush_soon(self)
            case AppendVoters(voters):
                world.tell(f"{self.id} appends voters {list(voters.ids)}")
                self.log.append([Entry(self.machine.epoch, "voters", voters.ids)])
                self.machine.on_voters(self.log.end.offset - 1, voters)
                world.flush_soon(self)
            case LeaderIs(leader_id, epoch):
                if leader_id not in (-1, self.id):
                    world.tell(f"{self.id} follows {leader_id} in epoch {epoch}")
            case Committed(offset):
                world.on_committed(self, offset)
                self.machine.on_committed(world.moment())

    def append_fetched(self, entries: list[Entry]) -> None:
        """Append, flush, tell the machine of voters."""
        first = self.log.end.offset
        self.log.append(entries)
        self.log.flush()
        for at, entry in enumerate(entries):
            if entry.voters is not None:
                self.machine.on_voters(first + at, voter_set(entry.voters))
        self.machine.on_appended()

    def take_snapshot(self, snapshot: OffsetAndEpoch) -> None:
        """The log begins anew behind it."""
        self.world.tell(f"{self.id} takes snapshot {tuple(snapshot)}")
        assert len(self.pieces) == snapshot.offset
        self.log.prefix, self.log.entries = self.pieces, []
        self.log.start = self.log.latest_snapshot = snapshot
        self.log.flush()
        sets = [one.voters for one in self.pieces if one.voters is not None]
        self.machine.on_snapshot_loaded(
            snapshot.offset, voter_set(sets[-1]) if sets else None
        )

    def flush(self) -> None:
        """The leader's turn of the loop is over."""
        if self.alive:
            self.log.flush()
            self.machine.on_flushed()
            self.settle()

    def write(self, value: str) -> bool:
        """Append as the leader."""
        if not self.alive or self.machine.role is not Role.LEADER:
            return False
        self.log.append([Entry(self.machine.epoch, value)])
        self.world.flush_soon(self)
        self.wake()
        return True

    # -- requests of others -----------------------------------------------------------------

    def receive(self, request: Request, answer: Callable[[Answer], None]) -> None:
        """A request has come."""
        machine, now = self.machine, self.world.moment()
        match request:
            case Vote():
                found: Answer = machine.on_vote(request, now)
            case BeginEpoch():
                found = machine.on_begin_epoch(request, now)
            case EndEpoch():
                found = machine.on_end_epoch(request, now)
            case FetchSnapshot():
                found = self.snapshot_piece(machine.on_fetch_snapshot(request, now), request)
            case Fetch():
                self.fetch(request, answer)
                return
        self.settle()
        answer(found)

    def fetch(self, ask: Fetch, answer: Callable[[FetchAnswer], None]) -> None:
        """Answer or park."""
        found = self.machine.on_fetch(ask, self.world.moment(), may_wait=ask.max_wait_ms > 0)
        if found is None:
            until_ms = self.world.now_ms + ask.max_wait_ms
            self.parked.append(Parked(ask, until_ms, answer))
            self.world.at(until_ms, self.wake)
        else:
            answer(self.with_records(found))
        self.settle()

    def wake(self) -> None:
        """Look at the parked fetches again."""
        if not self.alive:
            return
        waiting, self.parked = self.parked, []
        for parked in waiting:
            may_wait = self.world.now_ms < parked.until_ms
            found = self.machine.on_fetch(
                parked.ask, self.world.moment(), may_wait=may_wait, again=True
            )
            if found is None:
                self.parked.append(parked)
            else:
                parked.answer(self.with_records(found))

    def with_records(self, answer: FetchAnswer) -> FetchAnswer:
        """The records a machine only points at."""
        if answer.read_from is None:
            return answer
        return replace(answer, records=packed(self.log.read(answer.read_from)))

    def snapshot_piece(self, answer: SnapshotAnswer, ask: FetchSnapshot) -> SnapshotAnswer:
        """Entries of a snapshot, as many bytes as entries."""
        if answer.error is not ErrorCode.NONE:
            return answer
        if ask.snapshot != self.log.latest_snapshot:
            return replace(answer, error=ErrorCode.SNAPSHOT_NOT_FOUND)
        some = self.log.prefix[ask.position : ask.position + FETCH_ENTRIES]
        return replace(
            answer, size=len(self.log.prefix), position=ask.position, data=packed(some)
        )


class World:
    """All of it, from one seed."""

    def __init__(
        self,
        ids: Iterable[int],
        seed: int = 0,
        *,
        static: Iterable[int] | None = None,
        delay_ms: tuple[int, int] = (1, 1),
        loss: float = 0.0,
        settings: Settings | None = None,
        begin: Iterable[Entry] = (),
    ) -> None:
        """`begin` is what every log starts with, committed: then the voters are those it names."""
        self.ids = tuple(ids)
        self.settings = settings or Settings()
        self.dice = random.Random(seed)
        self.delay_ms = delay_ms
        self.loss = loss
        self.now_ms = 0
        self.lines: list[str] = []
        self.cut: set[frozenset[int]] = set()
        self.committed: list[Entry] = list(begin)
        self.static = None if self.committed else voter_set(self.ids if static is None else static)
        self.leaders: dict[int, int] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()
        self._armed: dict[int, int] = {}
        self._flushing: set[int] = set()
        self.replicas = {one: Replica(self, one) for one in self.ids}
        for replica in self.replicas.values():
            replica.log.append(self.committed)
            replica.log.flush()
            replica.start(self.static)

    # -- time -------------------------------------------------------------------------------

    def moment(self) -> Moment:
        return Moment(self.now_ms, self.dice.random())

    def at(self, when_ms: int, action: Callable[[], None]) -> None:
        """Do something later."""
        heapq.heappush(self._queue, (max(when_ms, self.now_ms), next(self._order), action))

    def run_for(self, duration_ms: int) -> None:
        """Let time pass."""
        until_ms = self.now_ms + duration_ms
        while self._queue and self._queue[0][0] <= until_ms:
            when_ms, _, action = heapq.heappop(self._queue)
            self.now_ms = when_ms
            action()
        self.now_ms = until_ms

    def arm(self, replica: Replica) -> None:
        """Wake the machine at its deadline."""
        deadline_ms = max(replica.machine.deadline_ms, self.now_ms + 1)
        if self._armed.get(replica.id) == deadline_ms or deadline_ms >= 1 << 61:
            return
        self._armed[replica.id] = deadline_ms

        def wake() -> None:
            if self._armed.get(replica.id) == deadline_ms and replica.alive:
                self._armed.pop(replica.id)
                replica.settle()

        self.at(deadline_ms, wake)

    def flush_soon(self, replica: Replica) -> None:
        """The leader's flush at the end of its turn."""
        if replica.id not in self._flushing:
            self._flushing.add(replica.id)

            def flush() -> None:
                self._flushing.discard(replica.id)
                replica.flush()

            self.at(self.now_ms, flush)

    # -- network ----------------------------------------------------------------------------

    def send(self, source: int, to: int, request: Request) -> None:
        """A request with its answer: either, neither or both arrive."""
        sender, receiver = self.replicas[source], self.replicas[to]
        machine = sender.machine
        state = {"open": True}

        def finish(call: Callable[[Moment], None]) -> None:
            if state["open"] and sender.alive and sender.machine is machine:
                state["open"] = False
                call(self.moment())
                sender.settle()

        def fail(refused: bool) -> None:
            finish(lambda now: machine.on_failure(to, request, now, refused=refused))

        def answered(answer: Answer) -> None:
            if not self._is_lost(to, source):
                self.at(
                    self.now_ms + self._delay(),
                    lambda: finish(lambda now: machine.on_answer(to, request, answer, now)),
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
        return frozenset((source, to)) in self.cut or self.dice.random() < self.loss

    def _delay(self) -> int:
        return self.dice.randint(*self.delay_ms)

    def on_crash(self, node_id: int) -> None:
        """Connections to it are reset: those who were connected hear of it soon."""
        for other in self.replicas.values():
            if other.alive and other.id != node_id and not self._is_lost(node_id, other.id):
                machine = other.machine

                def lost(other: Replica = other, machine: Machine = machine) -> None:
                    if other.alive and other.machine is machine:
                        machine.on_connection_lost(node_id, self.moment())
                        other.settle()

                self.at(self.now_ms + self._delay(), lost)

    # -- judging ----------------------------------------------------------------------------

    def tell(self, line: str) -> None:
        """A line of the transcript."""
        self.lines.append(f"{self.now_ms:>6} {line}")

    def on_leader(self, replica: Replica, epoch: int) -> None:
        """One leader per epoch, and it has all that is committed."""
        assert self.leaders.setdefault(epoch, replica.id) == replica.id, f"two lead {epoch}"
        held = replica.log.all()
        assert held[: len(self.committed)] == self.committed, f"{replica.id} lacks committed records"

    def on_committed(self, replica: Replica, offset: int) -> None:
        """What is committed stays, and is the same everywhere."""
        held = replica.log.all()[:offset]
        assert len(held) == offset, "committed beyond the log's end"
        shorter = min(offset, len(self.committed))
        assert held[:shorter] == self.committed[:shorter], "two histories were committed"
        if offset > len(self.committed):
            self.committed = held
            self.tell(f"committed up to {offset}")

    def check_log_matching(self) -> None:
        """Two logs with the same epoch at an offset are the same up to there."""
        logs = [replica.log.all() for replica in self.replicas.values()]
        for at, one in enumerate(logs):
            for other in logs[at + 1 :]:
                same = [
                    index for index in range(min(len(one), len(other)))
                    if one[index].epoch == other[index].epoch
                ]
                if same:
                    assert one[: same[-1] + 1] == other[: same[-1] + 1], "logs do not match"

    # -- what tests ask and do --------------------------------------------------------------

    @property
    def leader(self) -> Replica | None:
        """The living leader of the newest epoch."""
        leading = [
            one for one in self.replicas.values()
            if one.alive and one.machine.role is Role.LEADER
        ]
        return max(leading, key=lambda one: one.machine.epoch, default=None)

    def until_leader(self, patience_ms: int = 30_000) -> Replica:
        """Let time pass until somebody leads and is established."""
        until_ms = self.now_ms + patience_ms
        while self.now_ms < until_ms:
            leader = self.leader
            if leader is not None and leader.machine.leading.is_established:
                return leader
            self.run_for(10)
        raise AssertionError("nobody leads")

    def change_voters(self, ask: Callable[[Machine], Outcome]) -> Outcome:
        """Ask the leader for a change of the voters."""
        leader = self.until_leader()
        outcome = ask(leader.machine)
        leader.settle()
        return outcome

    def partition(self, *groups: Iterable[int]) -> None:
        """Nodes of different groups do not hear each other."""
        sides = [frozenset(group) for group in groups]
        self.cut = {
            frozenset((a, b))
            for a in self.ids for b in self.ids
            if a < b and not any(a in side and b in side for side in sides)
        }  # fmt: skip

    def heal(self) -> None:
        """Everybody hears everybody."""
        self.cut = set()

