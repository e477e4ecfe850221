"""Proposals against our real broker: nothing of them is matched before they are approved, whoever dies."""

from __future__ import annotations

import asyncio
import signal
from contextlib import closing

import msgspec
import pytest

from alarm.decisions.known_rules import KnownRules
from alarm.decisions.rule_states import RuleState
from alarm.proposals_reader import read_proposals
from bus.client.kafka.admin import Admin
from bus.client.kafka.command_client import CommandClient, new_command_id
from bus.contracts.commands import CommandAnswer, DecidedRule, WatchCommand
from bus.contracts.proposals import beside_rules
from bus.contracts.topics import DATA_VEHICLE, STATE_WATCHLIST, TOPICS
from bus.domain.policy import PolicySettings
from bus.domain.rule_targets import text_sha256
from bus.runtime import wall_clock
from deploy.servers.databus import RunningBroker
from tests.alarm.dispatch.dispatch_world import WITHIN_S, DispatchWorld, bind, ids, until
from tests.running_decider import running_decider

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

DIES_BEHIND_THE_RULE = """
import os, signal
from alarm.dispatch import decision_topics

whole = decision_topics.DecisionTopics.record

def record_one(self, topic, decisions, until_s):
    whole(self, topic, decisions[:1], until_s)
    if len(decisions) > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return True

decision_topics.DecisionTopics.record = record_one
from deploy.__main__ import main
main()
"""
"""Ends by kill -9 when the first of several records of a decision is there and the others are not."""
POLICY = PolicySettings()


def command(op: str = "put", rule_id: str = "r", **fields: object) -> WatchCommand:
    usual: dict[str, object] = {
        "rule_id": rule_id, "op": op, "version": 1, "name": "n", "account": "li", "reason": "stolen",
        "case": "K-1", "match": {"plate_number": ["浙AWL999"]}, "command_id": new_command_id(), "quiet_s": 0,
    }  # fmt: skip
    return msgspec.convert({**usual, **fields}, WatchCommand)


async def request(client: CommandClient, asked: WatchCommand) -> CommandAnswer:
    return await asyncio.to_thread(client.request, asked, WITHIN_S)


def known(world: DispatchWorld) -> KnownRules:
    state = KnownRules()
    for one in world.records_of(STATE_WATCHLIST):
        state.apply(one)
    return state


def waiting_sha256(world: DispatchWorld, rule_id: str = "r") -> str:
    found = read_proposals(world.bus, "check", wall_clock.now_ms(), WITHIN_S)
    return next(text_sha256(one.proposal.text) for one in found if one.proposal.rule_id == rule_id)


async def test_a_candidate_of_a_rule_that_waits_raises_nothing_and_of_an_approved_one_an_alarm(
    world: DispatchWorld, client: CommandClient
) -> None:
    """And of an emergency rule at once."""
    async with world.running(policy=POLICY):
        await request(client, command())
        world.candidates([1])
        await until(world.read_up_to, 1)
        await request(client, command("approve", account="zhao", text_sha256=waiting_sha256(world)))
        world.candidates([2])
        await until(world.stored, ids([2]))
        await request(client, command("remove"))
        await request(client, command(name="again", emergency_hours=1))
        world.candidates([3])
        await until(world.stored, ids([2, 3]))


async def test_proposed_approved_changed_and_rejected(world: DispatchWorld, client: CommandClient) -> None:
    with running_decider(world.bus.bootstrap_servers, POLICY):
        proposed = await request(client, command())
        own = await request(client, command("approve", text_sha256=waiting_sha256(world)))
        sha256 = waiting_sha256(world)
        approved = await request(client, command("approve", account="zhao", text_sha256=sha256))
        change = await request(client, command(name="changed", seen_version=approved.version))
        stale = await request(client, command("approve", account="zhao", text_sha256=sha256))
        rejected = await request(client, command("reject", account="zhao", reason="no"))
    assert [one.state for one in (proposed, own, approved, change, stale, rejected)] == [
        "proposed", "refused", "accepted", "proposed", "refused", "accepted",
    ]  # fmt: skip
    assert (own.code, stale.code) == ("own_proposal", "other_text")
    rules = [one for one in world.records_of(STATE_WATCHLIST) if beside_rules(one.value) is None]
    assert [msgspec.json.decode(one.value or b"", type=DecidedRule).name for one in rules] == ["n"]
    assert read_proposals(world.bus, "check", wall_clock.now_ms(), WITHIN_S) == []


@pytest.mark.parametrize("op", ["approve", "put"])
async def test_killed_between_two_records_of_a_decision_the_other_dispatcher_completes_it(
    world: DispatchWorld, client: CommandClient, op: str
) -> None:
    """kill -9 behind the rule of an approval and before the end of its proposal; and behind what an
    emergency says of its target and before its rule."""
    with running_decider(world.bus.bootstrap_servers, POLICY):
        assert (await request(client, command(match={"plate_number": ["浙A11111"]}))).state == "proposed"
    asked = command("approve", account="zhao", text_sha256=waiting_sha256(world))
    if op == "put":
        asked = command("put", rule_id="e", emergency_hours=2)
    dying = world.spawn("first", ("-c", DIES_BEHIND_THE_RULE), has_policy=True)
    standing_by = None
    try:
        await until(lambda: "decider: ready" in dying.log_path.read_text(), True)
        standing_by = world.spawn("second", has_policy=True)
        await until(lambda: standing_by.says("dispatcher: ready"), True)
        answer = await request(client, asked)
        assert dying.process.wait(WITHIN_S) == -signal.SIGKILL
        again = await request(client, asked)
        assert again == answer
        if op == "put":
            renewed = await request(client, command("put", rule_id="f", emergency_hours=2))
            assert renewed.code == "emergency_renewed"
    finally:
        dying.end()
        if standing_by is not None:
            standing_by.end()
    assert answer.state == "accepted"
    found, now_ms = known(world), wall_clock.now_ms()
    assert found.state(asked.rule_id, now_ms) is RuleState.IN_FORCE
    rules = [one for one in world.records_of(STATE_WATCHLIST) if beside_rules(one.value) is None]
    assert [one.key for one in rules] == [asked.rule_id.encode()], "decided once"


async def test_a_site_whose_data_are_anothers_approves_nothing(
    world: DispatchWorld, client: CommandClient, broker: RunningBroker
) -> None:
    with running_decider(world.bus.bootstrap_servers, POLICY):
        assert (await request(client, command())).state == "proposed"
    sha256 = waiting_sha256(world)
    with closing(Admin(world.bus, client_id="test")) as admin:
        admin.ensure_topics([TOPICS[DATA_VEHICLE]])
    bind(broker, "another-cluster")
    try:
        with running_decider(world.bus.bootstrap_servers, POLICY):
            for asked in (command(rule_id="s"), command("approve", account="zhao", text_sha256=sha256)):
                assert (await request(client, asked)).code == "not_primary"
    finally:
        bind(broker, None)
    assert known(world).state("r", wall_clock.now_ms()) is RuleState.PROPOSED
