"""Loads the stored state of a quorum node: its log, its election state, and the voters that these
and the configuration name.

Nothing that exists is overwritten; inconsistent state is an error that names the remedy. The only
voter may not start with an empty log where there was one: readers would conclude from it that all
topics are deleted. Where there are other voters, a voter without its log fetches it from them.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.kraft.raft.messages import ElectionState
from broker.controller.kraft.raft.quorum_state import QuorumConfig
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterSet, VoterSetHistory
from broker.controller.kraft.storage import state_file
from broker.controller.kraft.storage.raft_log import RaftLog
from broker.controller.kraft.storage.state_file import read_state
from broker.controller.kraft.transport.connections import QuorumAddresses, parse_quorum_addresses
from broker.disk.port import Disk
from broker.log.files import LOG
from broker.log.log_dir_files import signs_of_use


@dataclass(frozen=True, slots=True)
class LoadedQuorum:
    """The state a node starts with."""

    log: RaftLog
    state: ElectionState
    voters: VoterSetHistory
    addresses: QuorumAddresses


def load_quorum(
    config: BrokerConfig, clock: Clock, disk: Disk, root: str, me: ReplicaKey
) -> LoadedQuorum:
    """Loads it. Raises QuorumStateError, MetadataLogDamaged, MetadataLogMissing,
    MetadataSnapshotDamaged or QuorumAddressError."""
    listener = (config["controller.listener.names"] or ("CONTROLLER",))[0]
    addresses = parse_quorum_addresses(
        config["controller.quorum.voters"], config["controller.quorum.bootstrap.servers"], listener
    )
    path = f"{root}/__cluster_metadata-0/{state_file.FILE_NAME}"
    state = _read_state(disk, path)  # before the log: an error here changes nothing
    alone = is_only_voter(config, addresses, me)
    if alone:
        check_may_start_empty(disk, config, root)
    log = RaftLog(root, disk=disk, clock=clock, config=config, is_only_voter=alone)
    if log.end.offset:
        mark_metadata_exists(disk, root)
    history = _read_voters(log, addresses, me, config)
    return LoadedQuorum(log, state, history, addresses)


def _read_state(disk: Disk, path: str) -> ElectionState:
    stored = read_state(disk, path)
    if stored is None:
        return ElectionState()
    voted = None
    if stored.voted_id >= 0:
        voted = ReplicaKey(stored.voted_id, stored.voted_directory_id)
    return ElectionState(stored.leader_epoch, stored.leader_id, voted)


def _read_voters(
    log: RaftLog, addresses: QuorumAddresses, me: ReplicaKey, config: BrokerConfig
) -> VoterSetHistory:
    history = VoterSetHistory(addresses.static_voters)
    latest = log.latest_snapshot
    from_offset = log.start.offset
    if latest is not None:
        found = next((b.voters for b in log.snapshots.load(latest) if b.voters is not None), None)
        if found is not None:
            history.reset_to(latest.offset, found)
        from_offset = latest.offset
    offset = from_offset
    while offset < log.end.offset:
        data, offset = log.read_with_end(offset)
        for at, voters in log.voters_in(data):
            history.add(at, voters)
    alone = not addresses.bootstrap and "controller" in config["process.roles"]
    if not history.latest.voters and alone:
        return VoterSetHistory(VoterSet.of([Voter(me)]))  # a new cluster with one node
    return history


def quorum_config(config: BrokerConfig) -> QuorumConfig:
    """The quorum's part of the configuration."""
    return QuorumConfig(
        election_timeout_ms=max(config["controller.quorum.election.timeout.ms"], 1),
        election_backoff_max_ms=max(config["controller.quorum.election.backoff.max.ms"], 1),
        fetch_timeout_ms=max(config["controller.quorum.fetch.timeout.ms"], 1),
        retry_backoff_ms=max(config["controller.quorum.retry.backoff.ms"], 1),
        can_vote="controller" in config["process.roles"],
    )


DIRECTORY = "__cluster_metadata-0"
METADATA_MARK = ".databus_metadata"
"""A file beside ``meta.properties`` of a node that has had metadata."""


class MetadataLogMissing(Exception):
    """There was a metadata log and it is missing. The text names the remedy."""


def is_only_voter(config: BrokerConfig, addresses: QuorumAddresses, me: ReplicaKey) -> bool:
    """Whether the configuration names this node as the only voter."""
    if "controller" not in config["process.roles"] or addresses.bootstrap:
        return False
    return addresses.static_voters is None or [
        v.key.id for v in addresses.static_voters.voters
    ] == [me.id]


def check_may_start_empty(disk: Disk, config: BrokerConfig, root: str) -> None:
    """Raises MetadataLogMissing if the metadata of this, the only voter, is missing."""
    if _has_metadata(disk, f"{root}/{DIRECTORY}"):
        return
    signs = _signs_of_metadata(disk, config, root)
    if signs:
        all_of_it = dict.fromkeys((*config.log_dirs, root))
        raise MetadataLogMissing(
            f"{root}/{DIRECTORY} is missing or empty, but this node has had metadata before "
            f"({', '.join(signs)}), and it is the only voter, so nobody else has them: without "
            "them every topic would be unknown. Remedy: put the directory back, from where it "
            "was moved to or from a backup, or name the right metadata.log.dir. Only if it is "
            f"lost for good: move all of {', '.join(all_of_it)} away and start an empty "
            "cluster; the records stay readable there with Kafka's dump tool; nothing was changed"
        )


def mark_metadata_exists(disk: Disk, root: str) -> None:
    """Records that this node has metadata."""
    if not disk.exists(f"{root}/{METADATA_MARK}"):
        disk.replace_text_durably(f"{root}/{METADATA_MARK}", "version: 0\n")


def _has_metadata(disk: Disk, directory: str) -> bool:
    """Whether there is a non-empty log or a snapshot; `integrity` verifies it later."""
    if not disk.exists(directory):
        return False
    names = disk.listdir(directory)
    return any(name.endswith(".checkpoint") for name in names) or any(
        name.endswith(LOG) and disk.size_of(f"{directory}/{name}") for name in names
    )


def _signs_of_metadata(disk: Disk, config: BrokerConfig, root: str) -> list[str]:
    found = [f"{root}/{METADATA_MARK}"] if disk.exists(f"{root}/{METADATA_MARK}") else []
    for directory in config.log_dirs:
        found += signs_of_use(disk, directory)
    return found
