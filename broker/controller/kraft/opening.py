"""Opening a node's quorum: its log, its memory, and who votes as far as these and the configuration
say.

In: configuration, a directory. Out: `Opened`. Never: anything written that was there before; what
does not fit together is an error with the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.kraft import quorum_state
from broker.controller.kraft.beginning import check_may_begin, is_only_voter, note_begun
from broker.controller.kraft.core import Settings
from broker.controller.kraft.messages import ElectionState
from broker.controller.kraft.places import Places, configured
from broker.controller.kraft.raft_log import RaftLog
from broker.controller.kraft.vote_file import read_state
from broker.controller.kraft.voters import ReplicaKey, Voter, VoterHistory, VoterSet
from broker.disk.port import Disk


@dataclass(frozen=True, slots=True)
class Opened:
    """What a node begins with."""

    log: RaftLog
    state: ElectionState
    voters: VoterHistory
    places: Places


def open_quorum(
    config: BrokerConfig, clock: Clock, disk: Disk, root: str, me: ReplicaKey
) -> Opened:
    """Open it. Raises QuorumStateError, MetadataLogDamaged, MetadataLogMissing, SnapshotDamaged or
    PlaceError."""
    listener = (config["controller.listener.names"] or ("CONTROLLER",))[0]
    places = configured(
        config["controller.quorum.voters"], config["controller.quorum.bootstrap.servers"], listener
    )
    path = f"{root}/__cluster_metadata-0/{quorum_state.FILE_NAME}"
    state = _remembered(disk, path)  # before the log: an error here leaves all as it is
    alone = is_only_voter(config, places, me)
    if alone:
        check_may_begin(disk, config, root)
    log = RaftLog(root, disk=disk, clock=clock, config=config, is_only_voter=alone)
    if log.end.offset:
        note_begun(disk, root)
    history = _history(log, places, me, config)
    return Opened(log, state, history, places)


def _remembered(disk: Disk, path: str) -> ElectionState:
    stored = read_state(disk, path)
    if stored is None:
        return ElectionState()
    voted = None
    if stored.voted_id >= 0:
        voted = ReplicaKey(stored.voted_id, stored.voted_directory_id)
    return ElectionState(stored.leader_epoch, stored.leader_id, voted)


def _history(log: RaftLog, places: Places, me: ReplicaKey, config: BrokerConfig) -> VoterHistory:
    history = VoterHistory(places.static)
    latest = log.latest_snapshot
    from_offset = log.start.offset
    if latest is not None:
        found = next((b.voters for b in log.snapshots.load(latest) if b.voters is not None), None)
        if found is not None:
            history.restart_at(latest.offset, found)
        from_offset = latest.offset
    offset = from_offset
    while offset < log.end.offset:
        data, offset = log.read_on(offset)
        for at, voters in log.voters_in(data):
            history.add(at, voters)
    alone = not places.bootstrap and "controller" in config["process.roles"]
    if not history.latest.voters and alone:
        return VoterHistory(VoterSet.of([Voter(me)]))  # a cluster of one, begun here
    return history


def settings_of(config: BrokerConfig) -> Settings:
    """The machine's part of the configuration."""
    return Settings(
        election_timeout_ms=max(config["controller.quorum.election.timeout.ms"], 1),
        election_backoff_max_ms=max(config["controller.quorum.election.backoff.max.ms"], 1),
        fetch_timeout_ms=max(config["controller.quorum.fetch.timeout.ms"], 1),
        retry_backoff_ms=max(config["controller.quorum.retry.backoff.ms"], 1),
        can_vote="controller" in config["process.roles"],
    )
