"""Stories of the quorum as transcripts: `stories/*.txt`, DATABUS_REWRITE=1 rewrites them.

Commands: `nodes N… [voters N…]` · `run MS` · `write VALUE` · `crash N [power]` · `start N` ·
`cut N… | N…` · `heal` · `compact N` · `resign` · `add N` · `remove N` · `show`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.controller.kraft.raft.roles import RaftRole
from broker.controller.kraft.raft.voters import Voter
from tests.broker.controller.kraft.raft.quorum_world import (
    QuorumEntry,
    QuorumWorld,
    RaftReplica,
    key,
    voter_set,
)
from tests.broker.transcript import check_transcript

STORIES = sorted((Path(__file__).parent / "stories").glob("*.txt"))


class QuorumStory:
    """Runs commands in a world and returns what happened."""

    def __init__(self) -> None:
        self.world = QuorumWorld([], 7)

    def run(self, command: str) -> Iterable[str]:
        """Runs one command."""
        verb, _, rest = command.partition(" ")
        before = len(self.world.lines)
        output = getattr(self, f"do_{verb}")(rest)
        if verb == "nodes":
            before = 0
        return [*(output or ()), *self.world.lines[before:]]

    def do_nodes(self, rest: str) -> None:
        ids, _, voters = rest.partition(" voters ")
        numbers = [int(one) for one in ids.split()]
        if not voters:
            self.world = QuorumWorld(numbers, 7)
            return
        named = tuple(int(one) for one in voters.split())
        self.world = QuorumWorld(numbers, 7, begin=[QuorumEntry(0, "voters", named)])

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
        replica.log.compact(replica.raft.high_watermark)

    def do_resign(self, rest: str) -> None:
        leader = self.world.until_leader()
        leader.raft.resign(self.world.tick())
        leader.run_until_idle()

    def do_add(self, rest: str) -> list[str]:
        voter = Voter(key(int(rest)))
        outcome = self.world.change_voters(lambda machine: machine.voter_changes.add(voter))
        return [f"{'waits' if outcome.is_pending else outcome.error.name} {outcome.message}".strip()]

    def do_remove(self, rest: str) -> list[str]:
        gone = key(int(rest))
        outcome = self.world.change_voters(lambda machine: machine.voter_changes.remove(gone))
        return [f"{'waits' if outcome.is_pending else outcome.error.name} {outcome.message}".strip()]

    def do_show(self, rest: str) -> list[str]:
        return [shown(one) for one in self.world.replicas.values()]


def shown(replica: RaftReplica) -> str:
    """Describes one node in a line."""
    if not replica.alive:
        return f"{replica.id} is down, log {span(replica)}"
    machine = replica.raft
    whose = ""
    if machine.role in (RaftRole.FOLLOWER, RaftRole.OBSERVER):
        whose = f" of {machine.leader_id}"
    voters = ",".join(map(str, machine.quorum.voters.latest.ids))
    return (
        f"{replica.id} {machine.role.value}{whose} in epoch {machine.epoch}, log {span(replica)}, "
        f"committed {machine.high_watermark}, voters {voters}"
    )


def span(replica: RaftReplica) -> str:
    """Describes start, end and epochs of a log."""
    log = replica.log
    epochs = " ".join(str(entry.epoch) for entry in log.entries)
    return f"{log.start.offset}..{log.end.offset} [{epochs}]"


@pytest.mark.parametrize("path", STORIES, ids=[path.stem for path in STORIES])
def test_the_story_goes_as_it_is_written(path: Path) -> None:
    """Covers election, reconciliation, partition, pre-vote, snapshots and voters."""
    check_transcript(path, QuorumStory().run)


def test_there_are_stories() -> None:
    """Without this test an empty folder would pass."""
    assert len(STORIES) >= 7
    assert voter_set([1]).ids == (1,)
