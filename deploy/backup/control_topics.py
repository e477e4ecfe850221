"""The rules, lists and the register as people made them: read from their topics for a backup, and
put back on topics that lack them.

A restore leaves them in the data directory (`restored`); the dispatcher's next start puts back what
the topics lack and takes the files away. A rule whose id the topic knows, also as removed, is left
as it is there; a register is put on an empty topic only. Sent twice they change nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from alarm.decisions.known_rules import KnownRules
from alarm.proposals_reader import read_known
from alarm.watchlist_reader import CatchUpTimeout, WatchlistReader
from bus.client.kafka.admin import Admin
from bus.client.kafka.cluster import ClusterUnavailable, admin_client, wait_for_topics
from bus.client.kafka.send_all import send_all
from bus.client.model import KeyedValue
from bus.client.register_follower import RegisterFollower
from bus.client.register_writer import send_entries
from bus.contracts.commands import DecidedRule, WatchCommand
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.proposals import BesideRules, EmergencyTarget, key_of
from bus.contracts.register import Register, decode_register, encode_register
from bus.contracts.topics import CONTROL_REGISTER, STATE_LISTS, STATE_WATCHLIST, TOPICS
from bus.contracts.version_floor import FLOOR_KEY
from bus.domain.register_changes import changes, entries_of, register_of
from bus.domain.table_versions import TableVersions
from bus.errors import BusError, ErrorCode
from deploy.backup.saved_lists import (
    CLIENT_ID,
    LISTS,
    SavedList,
    put_lists,
    read_saved_lists,
)
from deploy.settings.composed import Settings

log = logging.getLogger(__name__)

AWAY_S = 5.0  # a bus that does not answer so long is away
READ_S = 20.0  # a topic of rules or of places is read in one or two
SEND_S = 60.0
RETRY_S = 5.0
AUTHOR = "restore"
RULES, PROPOSALS, REGISTER = "rules.json", "proposals.json", "register.json"


class ControlState(msgspec.Struct, frozen=True, kw_only=True):
    """What stands on the control topics: the rules in force and their version floor, what waits for
    an approval, which targets had an emergency, lists with their lines. `register` is None while
    its topic is empty."""

    rules: list[WatchCommand]
    beside_rules: list[BesideRules]
    lists: list[SavedList]
    register: Register | None


def restored_folder(settings: Settings) -> Path:
    """Where a restore leaves what the next start puts on the topics."""
    return settings.site.data_path / "restored"


def read_control(settings: Settings) -> ControlState:
    """All of it. Raises `BusError` while the bus is away."""
    admin = Admin(settings.bus, client_id=CLIENT_ID)
    try:
        admin.wait_until_up(AWAY_S)
    finally:
        admin.close()
    try:
        with closing(_watchlist(settings)) as reader:
            reader.catch_up()
            rules = [rule.command for _, rule in sorted(reader.rules.rules.items())]
            if reader.rules.versions.floor >= 0:
                rules.append(_floor(reader.rules.versions.floor))
        known = read_known(settings.bus, CLIENT_ID, READ_S)
    except (CatchUpTimeout, ClusterUnavailable) as error:
        raise BusError(ErrorCode.REQUEST_TIMED_OUT, f"{STATE_WATCHLIST}: {error}") from error
    lists = read_saved_lists(settings)
    with closing(_register(settings)) as follower:
        entries = follower.entries()
    return ControlState(
        rules=rules,
        beside_rules=_beside_rules(known),
        lists=lists,
        register=register_of(entries) if entries else None,
    )


def encode_rules(rules: Sequence[WatchCommand]) -> bytes:
    """For people to read, too."""
    return msgspec.json.format(msgspec.json.encode(rules), indent=1)


def encode_beside_rules(values: Sequence[BesideRules]) -> bytes:
    """The same of what stands beside rules."""
    return msgspec.json.format(msgspec.json.encode(values), indent=1)


def put_back(settings: Settings, stopping: threading.Event) -> None:
    """Put on the topics what a restore has left and they lack; tries until it is there."""
    folder = restored_folder(settings)
    steps: dict[Path, Callable[[Settings, bytes], int]] = {
        folder / RULES: _put_rules, folder / PROPOSALS: _put_beside_rules,
        folder / LISTS: put_lists, folder / REGISTER: _put_register,
    }  # fmt: skip
    if any(path.exists() for path in steps):
        _wait_for_topics(settings, stopping)
    for path, put in steps.items():
        while path.exists() and not stopping.is_set():
            try:
                log.info("%s: %d entries are put back", path, put(settings, path.read_bytes()))
                path.unlink()
            except (BusError, CatchUpTimeout, ClusterUnavailable) as error:
                log.warning("%s is not on the bus yet: %s", path, error)
                stopping.wait(RETRY_S)
            except msgspec.DecodeError as error:
                log.error("%s is not readable and put aside: %s", path, error)
                path.rename(path.with_name(path.name + ".unreadable"))


def _wait_for_topics(settings: Settings, stopping: threading.Event) -> None:
    admin = admin_client(settings.bus)
    while not stopping.is_set():
        try:
            wait_for_topics(admin, (STATE_WATCHLIST, STATE_LISTS, CONTROL_REGISTER), stopping)
            return
        except ClusterUnavailable as error:
            log.warning("what was restored waits for the bus: %s", error)


def _put_rules(settings: Settings, data: bytes) -> int:
    wanted = msgspec.json.decode(data, type=list[DecidedRule])
    with closing(_watchlist(settings)) as reader:
        reader.catch_up()
        missing = lacking(wanted, reader.rules.versions)
    values = (KeyedValue(one.rule_id.encode(), msgspec.json.encode(one)) for one in missing)
    _send_decided(settings, values, "rules")
    return len(missing)


def _put_beside_rules(settings: Settings, data: bytes) -> int:
    """Behind the rules: what a decision on its rule has settled is known as settled."""
    wanted = msgspec.json.decode(data, type=list[BesideRules])
    known = read_known(settings.bus, CLIENT_ID, READ_S)
    missing = [one for one in wanted if not _is_known(one, known)]
    values = (KeyedValue(key_of(one).encode(), msgspec.json.encode(one)) for one in missing)
    _send_decided(settings, values, "proposals")
    return len(missing)


def _send_decided(settings: Settings, values: Iterable[KeyedValue], what: str) -> None:
    send_all(
        settings.bus, CLIENT_ID, STATE_WATCHLIST, values,
        headers=[(SCHEMA, TOPICS[STATE_WATCHLIST].schema), (SITE, settings.site.name)],
        timeout_s=SEND_S, what=what,
    )  # fmt: skip


def _beside_rules(known: KnownRules) -> list[BesideRules]:
    return [*known.all_waiting(), *known.proposals.emergencies()]


def _is_known(one: BesideRules, known: KnownRules) -> bool:
    if isinstance(one, EmergencyTarget):
        return known.proposals.has_emergency(one)
    is_settled = known.get(one.rule_id).proposal >= one.version
    return is_settled or known.proposals.get(one.rule_id).version >= one.version


def _floor(version: int) -> DecidedRule:
    return DecidedRule(rule_id=FLOOR_KEY, op="floor", version=version)


def lacking(wanted: Iterable[DecidedRule], versions: TableVersions) -> list[DecidedRule]:
    """What the topic does not know, the floor last; at or below its own floor it knows all: what it
    lacks there was removed since."""
    found = [one for one in wanted if one.rule_id not in versions and one.version > versions.floor]
    return sorted(found, key=lambda one: one.op == "floor")


def _put_register(settings: Settings, data: bytes) -> int:
    wanted = entries_of(decode_register(data))
    with closing(_register(settings)) as follower:
        if follower.entries():
            return 0
        planned = changes({}, wanted)
        send_entries(
            settings.site, settings.bus, planned.values(), AUTHOR, CLIENT_ID, follower.next_version
        )
    return len(planned)


def _watchlist(settings: Settings) -> WatchlistReader:
    return WatchlistReader(settings.bus, CLIENT_ID, timeout_s=READ_S)


def _register(settings: Settings) -> RegisterFollower:
    path = settings.site.data_path / REGISTER
    follower = RegisterFollower(settings.bus, path, CLIENT_ID).start()
    if not follower.wait_until_read(READ_S):
        follower.close()
        raise BusError(ErrorCode.REQUEST_TIMED_OUT, f"{CONTROL_REGISTER} could not be read")
    return follower


def register_text(state: ControlState) -> bytes | None:
    """As the site's own file has it; None while the topic is empty and that file is in force."""
    return None if state.register is None else encode_register(state.register)
