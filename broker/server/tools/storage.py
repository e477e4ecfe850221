"""Formats log directories for a cluster, as `kafka-storage format` does.

Writes `meta.properties` to every log directory, for a controller of a dynamic quorum the snapshot
0-0 with its first voters (KIP-853), and the first users of SCRAM (KIP-900). It overwrites nothing;
a directory that was formatted for another cluster or node is an error, and then nothing has been
written anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from broker.clock.port import Clock
from broker.config.views import BrokerConfig
from broker.controller.kraft.raft.voters import ReplicaKey, Voter, VoterEndpoint, VoterSet
from broker.controller.kraft.storage.format import write_first_records, write_initial_voters
from broker.disk.port import Disk
from broker.log.log_dir_files import (
    MetaProperties,
    check_meta_properties,
    decode_uuid,
    encode_uuid,
    read_meta_properties,
    write_meta_properties,
)
from broker.server.control_plane import StartError
from broker.server.listeners import advertised
from broker.server.roles import Roles, roles_of
from broker.server.tools.first_users import ScramTextError, first_users

_CONTROLLER = re.compile(
    r"(?P<id>\d+)@(?P<host>\[[^\]]*\]|[^:/@]+):(?P<port>\d+):(?P<directory>[A-Za-z0-9_-]{22})"
)


class FormatError(StartError):
    """The requested format cannot be written; the text names the remedy."""


@dataclass(frozen=True, slots=True)
class Formatted:
    """The directories that were written, and the id of the metadata directory."""

    written: tuple[str, ...]
    directory_id: str


def format_storage(
    config: BrokerConfig,
    disk: Disk,
    clock: Clock,
    cluster_id: str,
    *,
    standalone: bool = False,
    initial_controllers: str = "",
    ignore_formatted: bool = False,
    scram_users: Sequence[str] = (),
) -> Formatted:
    """Format every log directory of this node. `scram_users`: as `first_users` reads them. Raises
    FormatError, WrongDirectory and what the directories' locks raise."""
    roles = roles_of(config)
    voters = _voters(initial_controllers) if initial_controllers else None
    _check_asked(config, roles, standalone, voters)
    if scram_users and not roles.controller:
        raise FormatError("first users are kept by a quorum's controllers; this node is none")
    try:
        users = first_users(scram_users, clock)
    except ScramTextError as error:
        raise FormatError(f"--add-scram: {error}") from error
    directories = tuple(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))
    locks = []
    try:
        for directory in directories:
            disk.mkdirs(directory)
            locks.append(disk.lock(directory))
        new = _new_ones(config, disk, directories, cluster_id, ignore_formatted)
        ids = {directory: clock.new_uuid() for directory in new}
        mine = None if voters is None else voters.find(config.node_id)
        if mine is not None and config.metadata_log_dir in ids:
            ids[config.metadata_log_dir] = mine.key.directory_id
        for directory in new:
            identity = MetaProperties(cluster_id, config.node_id, ids[directory])
            write_meta_properties(disk, directory, identity)
        found = read_meta_properties(disk, config.metadata_log_dir)
        directory_id = b"" if found is None else found.directory_id
        if standalone:
            voters = _standalone(config, roles, directory_id)
        if voters is not None and config.metadata_log_dir in new:
            write_initial_voters(disk, config.metadata_log_dir, voters, clock.now_ms())
        if users and config.metadata_log_dir in new:
            write_first_records(disk, config.metadata_log_dir, users, clock.now_ms())
    finally:
        for lock in locks:
            lock.release()
    return Formatted(tuple(new), encode_uuid(directory_id))


def _check_asked(
    config: BrokerConfig, roles: Roles, standalone: bool, voters: VoterSet | None
) -> None:
    if standalone and voters is not None:
        raise FormatError("say either --standalone or --initial-controllers, not both")
    named = standalone or voters is not None
    if named and not roles.controller:
        raise FormatError("the first voters are controllers; this node's process.roles has none")
    if named and config["controller.quorum.voters"]:
        raise FormatError(
            "controller.quorum.voters names the voters already; remove it and set "
            "controller.quorum.bootstrap.servers for a quorum that may change"
        )
    if voters is not None and voters.find(config.node_id) is None:
        raise FormatError(
            f"node {config.node_id} is not among --initial-controllers; format it with "
            "--no-initial-controllers"
        )


def _new_ones(
    config: BrokerConfig,
    disk: Disk,
    directories: tuple[str, ...],
    cluster_id: str,
    ignore_formatted: bool,
) -> list[str]:
    """Directories that are not formatted yet; the others are checked."""
    new = []
    for directory in directories:
        found = read_meta_properties(disk, directory)
        if found is None:
            new.append(directory)
            continue
        check_meta_properties(directory, found, cluster_id, config.node_id)
        if not ignore_formatted:
            raise FormatError(
                f"{directory} is formatted already; say --ignore-formatted to format only the "
                "directories that are not, nothing was changed"
            )
    return new


def _standalone(config: BrokerConfig, roles: Roles, directory_id: bytes) -> VoterSet:
    if not roles.controller_listeners:
        raise FormatError("a controller needs a listener named CONTROLLER in `listeners`")
    told = advertised(roles.controller_listeners[0], config["advertised.listeners"])
    place = VoterEndpoint(told.host, told.port, told.name)
    return VoterSet.of([Voter(ReplicaKey(config.node_id, directory_id), (place,))])


def _voters(text: str) -> VoterSet:
    """`id@host:port:directory-id`, separated by commas, as kafka-storage takes them."""
    found = {}
    for part in text.split(","):
        match = _CONTROLLER.fullmatch(part.strip())
        if match is None:
            raise FormatError(
                f"{part.strip()!r} is no controller; write id@host:port:directory-id, the "
                "directory id being 22 letters as `databus broker new-id` prints them"
            )
        node_id = int(match["id"])
        if node_id in found:
            raise FormatError(f"node {node_id} is named twice in --initial-controllers")
        place = VoterEndpoint(match["host"].strip("[]"), int(match["port"]))
        key = ReplicaKey(node_id, decode_uuid(match["directory"]))
        found[node_id] = Voter(key, (place,))
    return VoterSet.of(found.values())
