"""Who may do what on the bus of a secured site: one account per process, with the least rights
that its work needs. Pure.

In: nothing. Out: `ACCOUNTS`, and the ACLs made from it. Never: a client; what a person may do at
the console is decided there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bus.contracts import topics as t
from bus.contracts.groups import DECIDER, DISPATCHER
from bus.protocol.acls import (
    CLUSTER_NAME,
    AclBinding,
    Operation,
    Pattern,
    Permission,
    Resource,
)

EDGE, STREAMS, CONSOLE, WATCH = "edge", "streams", "console", "watch"
MIRROR, BACKUP, CITY, OPERATOR, PROMETHEUS = "mirror", "backup", "city", "operator", "prometheus"
RECORDER = "recorder"
EVERY = "*"
"""Of topics and groups: all that there are and will be."""
_RECORDS = (*t.DATA_TOPICS, t.METER_SENT, t.METER_ARRIVED, t.QUARANTINE_RECORDS)
_TABLES = (t.STATE_WATCHLIST, t.STATE_LISTS, t.CONTROL_REGISTER)
_ALARMS = (
    t.EVENT_ALARM, t.EVENT_SUPPRESSED, t.EVENT_INCIDENT, t.EVENT_NOTIFIED, t.EVENT_ACKNOWLEDGED,
)  # fmt: skip
_OF_CITY = (*t.DATA_TOPICS, t.METER_SENT, t.CONTROL_WATCHLIST, t.CONTROL_LISTS, t.STATE_LISTS)
_ALL_TOPICS = tuple(t.TOPICS)


@dataclass(frozen=True, slots=True)
class AccountAccess:
    """What one account may do.

    Of topics it `reads` the records and the configuration, and `writes`; of those that it `shows`
    it learns that they are there, and of those of `shows_configs` their configuration. To those
    that it `alters` it may add partitions; whoever alters `control.mirror-confirmed` may confirm a
    site epoch. `groups` are those whose positions it commits; who reads may ask for those of all,
    as librdkafka asks for a group named after each of its consumers. A name that ends in `*` is the
    beginning of names. `cluster` are operations on the cluster as a whole, `other_topics` those on
    topics that are none of the product's. A `superuser` may do everything, so that it can put right
    what the rules have closed.
    """

    what: str
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    shows: tuple[str, ...] = ()
    shows_configs: tuple[str, ...] = ()
    changes_configs: tuple[str, ...] = ()
    alters: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    transactions: tuple[str, ...] = ()
    cluster: tuple[Operation, ...] = ()
    other_topics: tuple[Operation, ...] = ()
    on_bus: bool = True
    superuser: bool = False


ACCOUNTS: dict[str, AccountAccess] = {
    EDGE: AccountAccess(
        "sends what devices report, and what it refused",
        reads=(t.CONTROL_MIRROR_CONFIRMED,),
        writes=_RECORDS,
        shows_configs=_RECORDS,
        alters=(t.CONTROL_MIRROR_CONFIRMED,),
        cluster=(Operation.DESCRIBE_CONFIGS,),
    ),
    STREAMS: AccountAccess(
        "stores records, matches them, counts them",
        reads=(
            *_RECORDS, t.DATA_VIDEO_SEGMENT, *_TABLES, t.METER_LATENCY, t.METER_QUALITY,
            t.EVENT_INCIDENT, t.CONTROL_MIRROR_CONFIRMED, t.CONTROL_MIRROR_TAILS,
        ),
        writes=(t.EVENT_CANDIDATE, t.EVENT_INCIDENT, t.METER_LATENCY, t.METER_QUALITY,
                t.QUARANTINE_RECORDS),
        shows_configs=(t.CONTROL_WATCHLIST,),
        groups=("streams-*", "spark-kafka-*"),
    ),
    DISPATCHER: AccountAccess(
        "decides on commands and candidates, tells people, and keeps the tables small",
        reads=(
            t.EVENT_CANDIDATE, *_ALARMS, t.EVENT_COMMAND, *_TABLES, t.STATE_ALARM,
            *t.REQUEST_TOPICS, t.CONTROL_MIRROR_TAILS, t.CONTROL_MIRROR_CONFIRMED,
        ),
        writes=(*_ALARMS, t.EVENT_COMMAND, *_TABLES, t.STATE_ALARM, t.CONTROL_ALARM,
                t.CONTROL_MIRROR_TAILS),
        shows_configs=_ALL_TOPICS,
        changes_configs=(t.CONTROL_WATCHLIST,),
        groups=(DISPATCHER, DECIDER),
        cluster=(Operation.DESCRIBE_CONFIGS,),
    ),
    CONSOLE: AccountAccess(
        "shows what comes, and sends what people ask for",
        reads=(*t.DATA_TOPICS, *_ALARMS, t.EVENT_COMMAND, *_TABLES, t.STATE_ALARM,
               t.CONTROL_WATCHLIST, t.CONTROL_ACCOUNTS, t.CONTROL_MIRROR_TAILS),
        writes=(*t.REQUEST_TOPICS, t.STATE_LISTS, t.CONTROL_REGISTER, t.CONTROL_ACCOUNTS),
        shows=(EVERY,),
        shows_configs=(EVERY,),
        cluster=(Operation.CREATE, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
        other_topics=(Operation.ALTER, Operation.DELETE),
    ),
    WATCH: AccountAccess(
        "judges who is away and what stands still",
        reads=(*_RECORDS, t.EVENT_INCIDENT, t.EVENT_ACKNOWLEDGED, t.CONTROL_REGISTER,
               t.STATE_LISTS),
        writes=(t.EVENT_INCIDENT,),
        shows=(EVERY,),
        cluster=(Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS),
    ),
    MIRROR: AccountAccess(
        "copies everything from one site to the other",
        reads=_ALL_TOPICS,
        writes=_ALL_TOPICS,
        shows=(EVERY,),
        shows_configs=(EVERY,),
        changes_configs=_ALL_TOPICS,
        alters=_ALL_TOPICS,
        groups=(EVERY,),
        transactions=("databus-mirror-*",),
        cluster=(
            Operation.CLUSTER_ACTION, Operation.CREATE, Operation.DESCRIBE,
            Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS,
        ),
    ),
    RECORDER: AccountAccess(
        "keeps the films of cameras, and tells of each piece",
        reads=(t.CONTROL_REGISTER,),
        writes=(t.DATA_VIDEO_SEGMENT,),
        cluster=(Operation.DESCRIBE_CONFIGS,),
    ),
    BACKUP: AccountAccess(
        "saves rules, lists and register", reads=_TABLES, shows_configs=(t.CONTROL_WATCHLIST,)
    ),
    CITY: AccountAccess(
        "the simulated cameras, and the lists that their city looks for",
        reads=(t.EVENT_COMMAND,),
        writes=_OF_CITY,
        shows_configs=_OF_CITY,
        cluster=(Operation.DESCRIBE_CONFIGS,),
    ),
    OPERATOR: AccountAccess("the command line of whoever runs the site", superuser=True),
    PROMETHEUS: AccountAccess("reads pages of metrics, and nothing on the bus", on_bus=False),
}  # fmt: skip


ACROSS_SITES = (MIRROR, EDGE)
"""Whose processes connect to both sites of a mirrored pair, with an account at each."""


def principal_of(account: str) -> str:
    """What a broker calls whoever has logged in with this account."""
    return f"User:{account}"


def acls_of(account: str, right: AccountAccess) -> list[AclBinding]:
    """The ACLs that give this account its rights, and no others."""
    who, anywhere = principal_of(account), "*"
    allowed = [
        AclBinding(kind, name, pattern, who, anywhere, operation, Permission.ALLOW)
        for kind, name, pattern, operation in sorted(set(_allowed(right)))
    ]
    denied = [
        AclBinding(
            Resource.TOPIC, name, Pattern.LITERAL, who, anywhere, operation, Permission.DENY
        )
        for name in t.TOPICS
        for operation in right.other_topics
    ]
    return allowed + denied


def all_acls() -> list[AclBinding]:
    """Those of every account."""
    return [acl for account, right in ACCOUNTS.items() for acl in acls_of(account, right)]


def _allowed(right: AccountAccess) -> Iterator[tuple[int, str, int, int]]:
    granted = (
        (Resource.TOPIC, right.reads, Operation.READ),
        (Resource.TOPIC, right.reads, Operation.DESCRIBE_CONFIGS),
        (Resource.TOPIC, right.writes, Operation.WRITE),
        (Resource.TOPIC, right.shows, Operation.DESCRIBE),
        (Resource.TOPIC, right.shows_configs, Operation.DESCRIBE_CONFIGS),
        (Resource.TOPIC, right.changes_configs, Operation.ALTER_CONFIGS),
        (Resource.TOPIC, right.alters, Operation.ALTER),
        (Resource.GROUP, right.groups, Operation.READ),
        (Resource.GROUP, (EVERY,) if right.reads else (), Operation.DESCRIBE),
        (Resource.TRANSACTIONAL_ID, right.transactions, Operation.WRITE),
    )
    for kind, names, operation in granted:
        for name in names:
            is_beginning = name.endswith("*") and name != EVERY
            pattern = Pattern.PREFIXED if is_beginning else Pattern.LITERAL
            yield kind, name[:-1] if is_beginning else name, pattern, operation
    for operation in right.other_topics:
        yield Resource.TOPIC, EVERY, Pattern.LITERAL, operation
    for operation in right.cluster:
        yield Resource.CLUSTER, CLUSTER_NAME, Pattern.LITERAL, operation
