"""Random stories of a group with static and dynamic members, held against what a group promises.

The shell is played here: timers fire at their moment, records are stored later or not at all. After
every step each member's session must have a timer that ends it in time; in the end every request has
been answered once, and who fell silent is gone.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from typing import Any

import pytest

from broker.coordinator.clock_reading import ClockReading
from broker.coordinator.effects import (
    AnswerJoin,
    AnswerSync,
    Arm,
    Effect,
    JoinRequest,
    JoinResult,
    Persist,
    PersistReplacement,
    SyncRequest,
    SyncResult,
    TimerKind,
)
from broker.coordinator.group import ClassicGroup
from broker.coordinator.states import GroupState
from bus.errors import ErrorCode
from tests.broker.coordinator.clock_readings import at

SESSIONS_MS = (6_000, 10_000, 30_000)
REBALANCE_MS = 5_000
STEPS = 250
INSTANCES = ("one", "two", "three", None, None)
STORED_WITHIN_MS = 400
QUIET_MS = max(SESSIONS_MS) + 2 * REBALANCE_MS + STORED_WITHIN_MS
"""A rebalance that somebody's silence begins lasts its own time, twice at the most."""


@dataclass(slots=True, eq=False)
class Process:
    """A member's process: what it knows of itself. `alive` ends with a restart or by silence."""

    instance: str | None
    session_ms: int
    versions_since_9: bool
    member_id: str = ""
    generation: int = -1
    asked: object = None
    alive: bool = True


class World:
    """The machine with its shell played. Invariant: `open` has the tokens without an answer."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now_ms = 1_000_000
        self.wall_error_ms = 0
        self.group = ClassicGroup("g", self.now, initial_delay_ms=0, max_size=100)
        self.due: list[tuple[int, int, Any]] = []
        self.timers: set[tuple[int, TimerKind, str]] = set()
        self.open: dict[object, Process] = {}
        self.processes: list[Process] = []
        self.numbers = 0

    @property
    def now(self) -> ClockReading:
        """Now and then an operator sets the clock."""
        if self.dice.random() < 0.02:
            self.wall_error_ms = self.dice.randrange(-3_600_000, 3_600_000)
        return at(self.now_ms, self.wall_error_ms)

    def fresh(self) -> int:
        self.numbers += 1
        return self.numbers

    # --- the shell -------------------------------------------------------------------------------

    def carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case AnswerJoin(token, result):
                    self.joined(self.open.pop(token), result)
                case AnswerSync(token, result):
                    self.synced(self.open.pop(token), result)
                case Arm(kind, subject, delay_ms):
                    self.timers.add((self.now_ms + delay_ms, kind, subject))
                    self.later(delay_ms, (kind, subject))
                case Persist() | PersistReplacement():
                    self.later(self.dice.randrange(STORED_WITHIN_MS), effect)

    def later(self, delay_ms: int, what: Any) -> None:
        heapq.heappush(self.due, (self.now_ms + delay_ms, self.fresh(), what))

    def pass_time(self, until_ms: int) -> None:
        """Everything that is due, in its order."""
        while self.due and self.due[0][0] <= until_ms:
            self.now_ms, _, what = heapq.heappop(self.due)
            error = ErrorCode.NONE
            if self.dice.random() < 0.1:
                error = ErrorCode.COORDINATOR_NOT_AVAILABLE
            match what:
                case Persist(generation=generation):
                    self.carry_out(self.group.on_stored(generation, error, self.now))
                case PersistReplacement(replacement=replacement):
                    self.carry_out(self.group.on_replaced(replacement, error, self.now))
                case (kind, subject):
                    self.timers.discard((self.now_ms, kind, subject))
                    self.carry_out(self.group.on_timer(kind, subject, self.now))
            self.check()
        self.now_ms = until_ms

    # --- members ---------------------------------------------------------------------------------

    def join(self, process: Process) -> None:
        token = self.ask(process)
        protocols = (("range", bytes([self.dice.randrange(3)])), ("sticky", b"s"))
        request = JoinRequest(
            member_id=process.member_id, group_instance_id=process.instance, client_id="c",
            client_host="/h", rebalance_timeout_ms=REBALANCE_MS,
            session_timeout_ms=process.session_ms, protocol_type="consumer", protocols=protocols,
            token=token, fresh_member_id=f"m{self.fresh()}",
            require_known_member_id=True, supports_skip_assignment=process.versions_since_9,
        )  # fmt: skip
        self.carry_out(self.group.join(request, self.now))

    def ask(self, process: Process) -> object:
        token = self.fresh()
        self.open[token] = process
        process.asked = token
        return token

    def joined(self, process: Process, result: JoinResult) -> None:
        process.asked = None
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            process.member_id = result.member_id
        elif result.error:
            self.start_anew(process, result.error)
        else:
            assert result.member_id not in {p.member_id for p in self.others(process)}
            process.member_id, process.generation = result.member_id, result.generation

    def synced(self, process: Process, result: SyncResult) -> None:
        process.asked = None
        if result.error:
            self.start_anew(process, result.error)

    def start_anew(self, process: Process, error: ErrorCode) -> None:
        process.generation = -1
        if error is ErrorCode.UNKNOWN_MEMBER_ID:
            process.member_id = ""
        if error is ErrorCode.FENCED_INSTANCE_ID:
            process.alive = False

    def others(self, process: Process) -> list[Process]:
        return [one for one in self.processes if one.alive and one is not process]

    def go_on(self, process: Process) -> None:
        """What a client does next: join, bring or ask for assignments, or a heartbeat."""
        if process.asked is not None:
            return
        if process.generation < 0:
            self.join(process)
            return
        if self.group.state is GroupState.COMPLETING_REBALANCE or self.dice.random() < 0.2:
            everybody = {member.member_id: b"x" for member in self.group.roster}
            request = SyncRequest(
                process.member_id, process.instance, process.generation, self.ask(process),
                assignments=everybody,
            )  # fmt: skip
            self.carry_out(self.group.sync(request, self.now))
            return
        error, effects = self.group.heartbeat(
            process.member_id, process.instance, process.generation, self.now
        )
        self.carry_out(effects)
        if error:
            self.start_anew(process, error)

    def begin(self) -> None:
        """A new process; under an instance id in use it is a restart, and the old one is silent."""
        instance = self.dice.choice(INSTANCES)
        for old in self.processes:
            if instance is not None and old.instance == instance:
                old.alive = False
        process = Process(instance, self.dice.choice(SESSIONS_MS), self.dice.random() < 0.5)
        self.processes.append(process)
        self.join(process)

    def leave(self, process: Process) -> None:
        process.alive = False
        _, _, effects = self.group.leave(process.member_id, process.instance, self.now)
        self.carry_out(effects)

    def step(self) -> None:
        living = [process for process in self.processes if process.alive]
        drawn = self.dice.random()
        if drawn < 0.12 or not living:
            self.begin()
        elif drawn < 0.17:
            self.leave(self.dice.choice(living))
        elif drawn < 0.25:
            self.dice.choice(living).alive = False
        else:
            self.go_on(self.dice.choice(living))
        self.check()

    # --- promises --------------------------------------------------------------------------------

    def check(self) -> None:
        """Whoever falls silent now is looked at when the session ends, and not later."""
        for member in self.group.roster:
            ends_ms = member.session.at_ms
            assert ends_ms is not None, f"{member.member_id} has no session"
            assert ends_ms <= self.now_ms + member.session_timeout_ms
            assert any(
                kind is TimerKind.SESSION and subject == member.member_id and at_ms <= ends_ms
                for at_ms, kind, subject in self.timers
            ), f"no timer ends the session of {member.member_id}"


@pytest.mark.parametrize("seed", range(25))
def test_a_silent_member_expires_within_its_session_whatever_came_before(seed: int) -> None:
    """A restart of a static member took its timer away: this found it at most seeds."""
    world = World(seed)
    for _ in range(STEPS):
        world.step()
        world.pass_time(world.now_ms + world.dice.randrange(1500))
    for process in world.processes:
        process.alive = False
    world.pass_time(world.now_ms + 2 * QUIET_MS)
    assert world.group.state is GroupState.EMPTY, f"seed {seed}"
    assert not len(world.group.roster)
    assert not world.open, f"seed {seed}: requests without an answer"


@pytest.mark.parametrize("seed", range(8))
def test_members_that_go_on_come_to_rest_when_the_others_fall_silent(seed: int) -> None:
    """Static members that live are in one stable generation once the dead ones' time is over."""
    world = World(seed)
    for _ in range(STEPS):
        world.step()
        world.pass_time(world.now_ms + world.dice.randrange(1500))
    living = [process for process in world.processes if process.alive]
    until_ms = world.now_ms + 2 * QUIET_MS
    while world.now_ms < until_ms:
        for process in living:
            if process.alive:
                world.go_on(process)
        world.pass_time(world.now_ms + 500)
    wanted = {process.member_id for process in living if process.alive}
    assert {member.member_id for member in world.group.roster} == wanted
    assert world.group.state is (GroupState.STABLE if wanted else GroupState.EMPTY)
