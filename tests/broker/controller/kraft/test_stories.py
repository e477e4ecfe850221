"""Stories of the quorum as transcripts: `stories/*.txt`, DATABUS_REWRITE=1 writes them anew.

Commands: `nodes N… [voters N…]` · `run MS` · `write VALUE` · `crash N [power]` · `start N` ·
`cut N… | N…` · `heal` · `compact N` · `resign` · `add N` · `remove N` · `show`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.controller.kraft.states import Role
from broker.controller.kraft.voters import Voter
from tests.broker.controller.kraft.quorum_world import Entry, Replica, World, key, voter_set
from tests.broker.transcript import check_transcript

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


class Teller:
    """Carries commands out on a world and says what happened."""

    def __init__(self) -> None:
        self.world = World([], 7)

    def run(self, command: str) -> Iterable[str]:
        """One command."""
        verb, _, rest = command.partition(" ")
        before = len(self.world.lines)
        told = getattr(self, f"do_{verb}")(rest)
        if verb == "nodes":
            before = 0
        return [*(told or ()), *self.world.lines[before:]]

    def do_nodes(self, rest: str) -> None:
        ids, _, voters = rest.partition(" voters ")
        numbers = [int(one) for one in ids.split()]
        if not voters:
            self.world = World(numbers, 7)
            return
        named = tuple(int(one) for one in voters.split())
        self.world = World(numbers, 7, begin=[Entry(0, "voters", named)])

    def do_run(self, rest: str) -> None:
        self.world.run_for(int(rest))

    def do_write(self, rest: str) -> list[str]:
        leader = self.world.leader
        return [] if leader is not None and leader.write(rest) else ["nobody takes it"]

    def do_crash(self, rest: str) -> None:
        number, *power = rest.split()
        self.world.replicas[int(number)].crash(keep_cache=not power)

    def do_start(self, rest: str) -> None:
        self.world.replicas[int(rest)].start(self.world.static)

    def do_cut(self, rest: str) -> None:
        self.world.partition(*([int(one) for one in side.split()] for side in rest.split("|")))

    def do_heal(self, rest: str) -> None:
        self.world.heal()

    def do_compact(self, rest: str) -> None:
        replica = self.world.replicas[int(rest)]
        replica.log.compact(replica.machine.high_watermark)

    def do_resign(self, rest: str) -> None:
        leader = self.world.until_leader()
        leader.machine.resign(self.world.moment())
        leader.settle()

    def do_add(self, rest: str) -> list[str]:
        voter = Voter(key(int(rest)))
        outcome = self.world.change_voters(lambda machine: machine.membership.add(voter))
        return [f"{'waits' if outcome.waits else outcome.error.name} {outcome.message}".strip()]

    def do_remove(self, rest: str) -> list[str]:
        gone = key(int(rest))
        outcome = self.world.change_voters(lambda machine: machine.membership.remove(gone))
        return [f"{'waits' if outcome.waits else outcome.error.name} {outcome.message}".strip()]

    def do_show(self, rest: str) -> list[str]:
        return [shown(one) for one in self.world.replicas.values()]


def shown(replica: Replica) -> str:
    """One node in a line."""
    if not replica.alive:
        return f"{replica.id} is down, log {span(replica)}"
    machine = replica.machine
    whose = ""
    if machine.role in (Role.FOLLOWER, Role.OBSERVER):
        whose = f" of {machine.leader_id}"
    voters = ",".join(map(str, machine.core.voters.latest.ids))
    return (
        f"{replica.id} {machine.role.value}{whose} in epoch {machine.epoch}, log {span(replica)}, "
        f"committed {machine.high_watermark}, voters {voters}"
    )


def span(replica: Replica) -> str:
    """Start and end of a log, and the epochs in it."""
    log = replica.log
    epochs = " ".join(str(entry.epoch) for entry in log.entries)
    return f"{log.start.offset}..{log.end.offset} [{epochs}]"


@pytest.mark.parametrize("path", STORIES, ids=[path.stem for path in STORIES])
def test_the_story_goes_as_it_is_written(path: Path) -> None:
    """Election, reconciliation, partition, pre-vote, snapshots, voters."""
    check_transcript(path, Teller().run)


def test_there_are_stories() -> None:
    """An empty folder would pass."""
    assert len(STORIES) >= 7
    assert voter_set([1]).ids == (1,)
