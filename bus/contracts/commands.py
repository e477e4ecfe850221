"""Commands of operators, what was decided of them, and the answers.

A request stands on its topic (rules: `control.watchlist`), the decision on another (rules:
`state.watchlist`, key `rule_id`; the newest one per key is the state; what waits for an approval is
beside it, see `bus.contracts.proposals`), the answer on `event.command` (key: the command's id).
Only the site's decider (`alarm.decisions`) reads requests.
In/out: frozen structs, JSON with English keys. Never: matching (that is `alarm.rules`).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from bus.contracts.expressions import Expression
from bus.contracts.topics import CONTROL_WATCHLIST

MatchedKind = Literal["vehicle", "face"]
"""The kinds of data whose attributes a rule may name."""
USUAL_QUIET_S = 10
"""One passage that two lanes see, or that is sent twice, is one alarm."""
USUAL_KIND: MatchedKind = "vehicle"
"""What a rule is about that does not say."""
ANY_VERSION = -1
"""The `seen_version` of a command that names none."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What every request says of itself.

    `seen_version` is the version in force that the person saw: 0 where there was none, -1 where it
    makes no difference.
    """

    TOPIC: ClassVar[str]
    """Of requests of this kind."""

    command_id: str = ""  # answered under it; empty: its place on the topic is its id
    issuer: str = ""  # the program that asks: command line, console …
    account: str = ""
    session: str = ""
    reason: str = ""
    case: str = ""
    seen_version: int = ANY_VERSION
    signature: str = ""  # of a later version of the product; not looked at

    @property
    def key(self) -> str:
        """Of the message: what is to be changed."""
        raise NotImplementedError


class WatchCommand(Command, frozen=True, kw_only=True):
    """`control.watchlist`: put a target on the watch list, change it, or take it off (布控 / 撤控).

    It is a request, and in force when it was answered so on `event.command`.
    `match` is a conjunction: English attribute of `bus.contracts.keys` -> accepted values (any of
    them); `plate_number` compares normalised plates, and `~` before one takes its misreadings, too.
    `where` is a tree of conditions; a rule has `match`, `where` or both, and a record that meets it
    meets both. `op` is explicit because a tombstone parses to null; `floor` is no rule: no command
    up to its version is accepted any more. `quiet_s`: so long before and after an alarm no other
    record of that target at that place raises one; 0: each does. `approve`, `reject` and `withdraw`
    settle what is proposed under the rule's id; an approval names the SHA-256 of the text that it
    approves. A `put` with `emergency_hours` is in force at once, for so long and no longer.
    `visible_to`: the units that see the rule and what comes of it; none: everybody. `unit` is that
    of the account, as the program that asks says (`bus.domain.visibility`). `target`: whom of the
    case the rule is about; all rules of one `case` that name it are about the same one.
    """

    TOPIC: ClassVar[str] = CONTROL_WATCHLIST

    rule_id: str
    op: Literal["put", "approve", "reject", "withdraw", "remove", "floor"]
    version: int  # epoch ms; of a decision: a later version wins in any order of arrival
    kind: MatchedKind = USUAL_KIND
    name: str = ""
    severity: Literal["info", "warning", "critical"] = "warning"
    match: dict[str, list[str]] = {}
    where: Expression | None = None
    valid_from_ms: int = 0
    valid_until_ms: int = 0  # 0 = until removed
    quiet_s: int = USUAL_QUIET_S
    author: str = ""
    note: str = ""
    emergency_hours: int = 0  # 0: no emergency
    text_sha256: str = ""  # of what is approved, rejected or withdrawn
    visible_to: list[str] = []
    unit: str = ""  # of who asks; `*`: sees what any unit sees
    target: str = ""

    @property
    def key(self) -> str:
        """See `Command.key`."""
        return self.rule_id

    @property
    def asked_by(self) -> str:
        """In whose name it is asked."""
        return self.account or self.author or self.issuer


class DecidedRule(WatchCommand, frozen=True, kw_only=True, omit_defaults=True):
    """`state.watchlist`: the rule in force, or its end, as it was decided. `version` is larger than
    every earlier one of the rule; `command_id` is the request's. `proposal` is the version of the
    proposal that it settled; of an approved rule `account` is who proposed it.
    """

    op: Literal["put", "remove", "floor"]
    decided_at_ms: int = 0  # 0: by a version of the product that did not decide
    proposal: int = 0
    approved_by: str = ""
    approval_reason: str = ""

    @property
    def decided_by(self) -> str:
        """Whom a person would ask about it."""
        return self.asked_by


class CommandAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """`event.command`: what became of one request: in force under `version`, waiting for an
    approval under it (`proposed`), or refused. What ends a proposal is accepted.

    A refusal names its reason (`code`), the part at fault (`field`) and says it in English; of a
    command that saw another version, who made the present one and when. A command that comes again
    under its id is answered the same again.
    """

    command_id: str
    topic: str  # of the request
    offset: int  # of the request
    key: str  # of what was to be changed, of a rule its id
    state: Literal["accepted", "proposed", "refused"]
    version: int = 0  # of what was decided; a stale command: the present one
    code: str = ""
    field: str = ""
    text: str = ""
    changed_by: str = ""
    changed_at_ms: int = 0
    answered_at_ms: int = 0
