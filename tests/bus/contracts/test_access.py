"""The table of rights, asked as a broker asks it: what an account may do, and what nobody may."""

from __future__ import annotations

import pytest

from bus.contracts import access
from bus.contracts.access import (
    ACCOUNTS,
    CITY,
    CONSOLE,
    EDGE,
    MIRROR,
    STREAMS,
    WATCH,
    all_acls,
    principal_of,
)
from bus.contracts.groups import DISPATCHER
from bus.contracts.topics import (
    CONTROL_ACCOUNTS,
    CONTROL_MIRROR_CONFIRMED,
    CONTROL_STATISTICS,
    CONTROL_VIDEO,
    DATA_FACE,
    EVENT_ALARM,
    EVENT_STATISTICS,
    EVENT_VIDEO_PROGRESS,
    STATE_WATCHLIST,
    TOPICS,
)
from bus.protocol.acl_index import AclIndex
from bus.protocol.acls import CLUSTER_NAME, Operation, Resource

HOST = "10.0.0.7"
UNWRITTEN = {CONTROL_STATISTICS, CONTROL_VIDEO, EVENT_STATISTICS, EVENT_VIDEO_PROGRESS}
"""Topics for orders and films, which no process of this version writes."""
ORDINARY = sorted(name for name, right in ACCOUNTS.items() if not right.superuser)


@pytest.fixture(scope="module")
def index() -> AclIndex:
    made = AclIndex()
    made.add(all_acls())
    return made


def may(index: AclIndex, account: str, operation: Operation, kind: Resource, name: str) -> bool:
    return index.decide(principal_of(account), HOST, operation, kind, name).is_allowed


def writers(index: AclIndex, topic: str) -> set[str]:
    return {name for name in ORDINARY if may(index, name, Operation.WRITE, Resource.TOPIC, topic)}


@pytest.mark.parametrize("account", ORDINARY)
def test_an_account_reads_and_writes_the_topics_of_its_row_and_no_others(account: str, index: AclIndex) -> None:
    right = ACCOUNTS[account]
    for topic in (*TOPICS, "somebody.elses", "__consumer_offsets"):
        assert may(index, account, Operation.READ, Resource.TOPIC, topic) == (topic in right.reads)
        assert may(index, account, Operation.WRITE, Resource.TOPIC, topic) == (topic in right.writes)


def test_every_topic_of_the_contract_has_a_writer_besides_the_mirror(index: AclIndex) -> None:
    alone = {topic for topic in TOPICS if not writers(index, topic) - {MIRROR}}
    assert alone == {*UNWRITTEN, CONTROL_MIRROR_CONFIRMED}


def test_rules_in_force_alarms_and_accounts_have_one_writer_each(index: AclIndex) -> None:
    """What an alarm hangs on is written by whoever decides on it, whatever else is taken over."""
    assert writers(index, STATE_WATCHLIST) == {DISPATCHER, MIRROR}
    assert writers(index, EVENT_ALARM) == {DISPATCHER, MIRROR}
    assert writers(index, CONTROL_ACCOUNTS) == {CONSOLE, MIRROR}


def test_whoever_takes_cameras_in_reads_no_record(index: AclIndex) -> None:
    for account in (EDGE, CITY):
        assert not may(index, account, Operation.READ, Resource.TOPIC, DATA_FACE)


def test_nobody_but_operator_and_mirror_changes_the_cluster_or_who_may_do_what(index: AclIndex) -> None:
    for account in ORDINARY:
        for operation in (Operation.ALTER, Operation.ALTER_CONFIGS, Operation.CLUSTER_ACTION):
            allowed = may(index, account, operation, Resource.CLUSTER, CLUSTER_NAME)
            assert not allowed or (account == MIRROR and operation is not Operation.ALTER)
    assert [name for name, right in ACCOUNTS.items() if right.superuser] == [access.OPERATOR]


def test_the_console_deletes_topics_of_others_and_none_of_ours(index: AclIndex) -> None:
    """An administrator's order of the console; no other account deletes a topic at all."""
    for account in ORDINARY:
        for topic in TOPICS:
            assert not may(index, account, Operation.DELETE, Resource.TOPIC, topic)
        deletes = may(index, account, Operation.DELETE, Resource.TOPIC, "somebody.elses")
        assert deletes == (account == CONSOLE)


def test_positions_of_an_application_are_committed_by_itself_alone(index: AclIndex) -> None:
    for group, owner in (("streams-ingest", STREAMS), (DISPATCHER, DISPATCHER), ("decider", DISPATCHER)):
        readers = {name for name in ORDINARY if may(index, name, Operation.READ, Resource.GROUP, group)}
        assert readers == {owner, MIRROR}
    assert may(index, WATCH, Operation.DESCRIBE, Resource.GROUP, "streams-ingest")


def test_who_has_an_account_for_pages_only_may_do_nothing_on_the_bus(index: AclIndex) -> None:
    pages_only = [name for name, right in ACCOUNTS.items() if not right.on_bus]
    assert pages_only == [access.PROMETHEUS]
    assert not [acl for acl in all_acls() if acl.principal == principal_of(access.PROMETHEUS)]
