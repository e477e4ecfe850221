"""Reads the rules in force to their end before records or candidates are matched, and the lists of
plates that they refer to.

`state.watchlist` is compacted and read from its beginning at every start. Spark's driver and the
dispatcher use the same reader. Never: the rules of an earlier version's topic before a dispatcher
has taken them over: half of them would be none.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import closing
from pathlib import Path

import msgspec

from alarm.lists.reader import ListReader
from alarm.rules import RuleSet
from alarm.rules.references import References
from bus.client.kafka.admin import Admin
from bus.client.kafka.compacted_topic import CatchUpTimeout, CompactedTopic
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.topic_reader import CATCH_UP_TIMEOUT_S
from bus.client.model import ConsumedRecord
from bus.client.wire.partition_leaders import PartitionLeaders
from bus.confusion_file import ConfusionSource
from bus.contracts.commands import DecidedRule
from bus.contracts.proposals import beside_rules
from bus.contracts.topics import CONTROL_WATCHLIST, STATE_WATCHLIST
from bus.domain.expressions.tree import ExpressionError, check_size
from bus.domain.registered_places import NO_PLACES, RegisteredPlaces
from bus.errors import BusError, ErrorCode
from bus.files.register_file import RegisterSource
from bus.settings import BusSettings

__all__ = ["CatchUpTimeout", "WatchlistReader", "command_of", "rule_id_of"]

log = logging.getLogger(__name__)

POLICY_S = 0.2  # between two questions whether rules were taken over


class _WatchRules:
    """What the topic says: the rules, and the commands that nobody has been given yet."""

    def __init__(self) -> None:
        self.rules = RuleSet()
        self.new: list[DecidedRule] = []

    def apply(self, record: ConsumedRecord) -> None:
        """The next one; a rule's newest version counts, in whatever order they come."""
        if record.value is None:
            rule_id = rule_id_of(record)
            if self.rules.forget(rule_id):
                floor = self.rules.versions.floor
                self.new.append(DecidedRule(rule_id=rule_id, op="remove", version=floor))
            return
        command = command_of(record)
        if command is not None and self.rules.apply(command):
            self.new.append(command)


class WatchlistReader:
    """A reader of the topic of decisions. One thread at a time."""

    def __init__(
        self,
        bus: BusSettings,
        client_id: str,
        folder: Path | None = None,
        register: RegisterSource | None = None,
        confusion: ConfusionSource | None = None,
        *,
        timeout_s: float = CATCH_UP_TIMEOUT_S,
        stopping: threading.Event | None = None,
    ) -> None:
        """`folder`: where this machine keeps tables of lists (`BaseTables`); without it no list is
        read, and none is in force. `register`: what places are taken from; without it rules that
        name places are met by no record. `confusion`: the site's table of misreadings; without it
        the packaged one. Raises `CatchUpTimeout`, BusError."""
        _wait_until_taken_over(bus, client_id, timeout_s, stopping or threading.Event())
        self._topic = CompactedTopic(
            bus, STATE_WATCHLIST, _WatchRules,
            client_id=client_id, leaders=PartitionLeaders(bus, f"{client_id}-ends"),
            overrides=FOLLOWS_LEADERS, timeout_s=timeout_s, stopping=stopping,
        )  # fmt: skip
        self._lists = folder and ListReader(
            bus, f"{client_id}-lists", folder, timeout_s=timeout_s, stopping=stopping
        )
        self._register = register
        self._confusion = confusion or ConfusionSource(None)
        self._register_version: int | None = None
        self._places = NO_PLACES
        self.version = 0
        """Grows with every change of what is in force, lists included."""

    @property
    def rules(self) -> RuleSet:
        """As of the last `catch_up`."""
        return self._topic.state.rules

    @property
    def generation(self) -> int:
        """Grows when the topic was made anew: `rules` are those of the new one alone."""
        return self._topic.generation

    def catch_up(self) -> list[DecidedRule]:
        """Apply every command that was on the topic when this was called, and return the new ones;
        every change of a list and of the table of misreadings, too.

        Raises `CatchUpTimeout`, also when `stopping` is set meanwhile, BusError.
        """
        before, generation = self.rules, self.generation
        self._topic.catch_up()
        if self.generation != generation:
            log.error("%s says all rules: %d of the former topic are in force no longer",
                      STATE_WATCHLIST, len(before))  # fmt: skip
        state = self._topic.state
        new, state.new = state.new, []
        is_changed = self.rules.refer_to(self._read_references())
        self.version += bool(new or is_changed or self.generation != generation)
        return new

    def _read_references(self) -> References:
        places, confusion = self._read_places(), self._confusion.read()
        if not self._lists:
            return References(places=places, confusion=confusion)
        return References(self._lists.catch_up(), places, self._lists.galleries, confusion)

    def _read_places(self) -> RegisteredPlaces:
        """Of the register as it is; the same ones until it is another."""
        if self._register is None:
            return NO_PLACES
        version = self._register.version
        if version != self._register_version:
            self._register_version, register = version, self._register.read()
            if register != self._places.register:
                self._places = RegisteredPlaces(register)
        return self._places

    def close(self) -> None:
        """Leave."""
        self._topic.close()
        if self._lists:
            self._lists.close()


def has_earlier_rules(admin: Admin) -> bool:
    """Whether the topic of requests is still an earlier version's, whose rules stand on it. Raises
    BusError."""
    try:
        configs = admin.topic_configs(CONTROL_WATCHLIST)
    except BusError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        return False
    return "compact" in configs.get("cleanup.policy", "")


def _wait_until_taken_over(
    bus: BusSettings, client_id: str, timeout_s: float, stopping: threading.Event
) -> None:
    deadline = time.monotonic() + timeout_s
    with closing(Admin(bus, client_id=f"{client_id}-policy", timeout_s=timeout_s)) as admin:
        while True:
            try:
                if not has_earlier_rules(admin):
                    return
                why = f"rules still stand on {CONTROL_WATCHLIST}: a dispatcher takes them over"
            except BusError as error:
                why = str(error)
            if time.monotonic() > deadline or stopping.wait(POLICY_S):
                raise CatchUpTimeout(why)


def rule_id_of(received: ConsumedRecord) -> str:
    """Of a tombstone, which says no more."""
    return (received.key or b"").decode("utf-8", "replace")


def command_of(received: ConsumedRecord) -> DecidedRule | None:
    """The command in a record; None for a tombstone, for what stands beside rules and for what is
    not ours."""
    if received.value is None:
        return None
    try:
        command = msgspec.json.decode(received.value, type=DecidedRule)
        if command.where is not None:
            check_size(command.where)  # one of any depth cannot be handed to executors
        return command
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ExpressionError) as error:
        if beside_rules(received.value) is None:
            log.error("the command at offset %d is not readable: %s", received.offset, error)
        return None
