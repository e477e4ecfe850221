"""The life of alarms with our broker and dispatchers that are killed: one decision each, stored."""

from __future__ import annotations

import asyncio
import signal
from contextlib import closing

import msgspec
import pytest

from alarm.dispatch.reader import OperationsReader
from bus.client.kafka.admin import Admin
from bus.client.kafka.command_client import CommandClient, CommandUnanswered, new_command_id
from bus.contracts.alarm_states import AlarmRequest, AlarmState
from bus.contracts.command_codes import ALREADY_TAKEN
from bus.contracts.commands import CommandAnswer
from bus.contracts.topics import EVENT_COMMAND, STATE_ALARM, TOPICS
from bus.notify.acknowledgements import Acknowledgements
from bus.runtime.wall_clock import now_ms
from tests.alarm.dispatch.dispatch_world import WITHIN_S, DispatchWorld, ids, until
from tests.alarm.dispatch.test_decider import DIES

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def request(op: str, account: str = "li", alarm_id: str = "r:1", **fields: object) -> AlarmRequest:
    given = {"op": op, "account": account, "alarm_id": alarm_id, "command_id": new_command_id()}
    return msgspec.convert({**given, **fields}, AlarmRequest)


async def ask(client: CommandClient, wanted: AlarmRequest) -> CommandAnswer:
    return await asyncio.to_thread(client.request, wanted, WITHIN_S)


def decided(world: DispatchWorld) -> list[AlarmState]:
    return [
        msgspec.json.decode(one.value, type=AlarmState)
        for one in world.records_of(STATE_ALARM) if one.value is not None
    ]  # fmt: skip


def stored(world: DispatchWorld, alarm_id: str = "r:1") -> tuple[str, str, list[str]]:
    """Stage, owner, what was done by whom."""
    with closing(OperationsReader(world.path)) as reader:
        state = reader.alarm_states([alarm_id]).get(alarm_id)
    if state is None:
        return ("open", "", [])
    return (state.stage, state.owner, [f"{one.by} {one.op}" for one in state.history])


async def raise_alarm(world: DispatchWorld) -> None:
    world.put_rule()
    world.candidates([1])
    await until(world.stored, ids([1]))


async def test_of_two_operators_who_take_an_alarm_at_once_exactly_one_has_it(
    world: DispatchWorld, client: CommandClient
) -> None:
    """Thirty at once: one is told that it is theirs, all others who has it and since when; the
    file by which notices escalate says the same."""
    async with world.running():
        await raise_alarm(world)
        names = [f"op{number}" for number in range(30)]
        answers = await asyncio.gather(*(ask(client, request("take", name)) for name in names))
        [winner] = [n for n, one in zip(names, answers, strict=True) if one.state == "accepted"]
        lost = [one for one in answers if one.state == "refused"]
        assert {(one.code, one.changed_by) for one in lost} == {(ALREADY_TAKEN, winner)}
        assert {one.changed_at_ms for one in lost} == {decided(world)[0].since_ms}
        await until(lambda: stored(world), ("taken", winner, [f"{winner} take"]))
        await until(lambda: Acknowledgements(world.site).who("r:1"), winner)
        await ask(client, request("confirm", winner))
        await ask(client, request("close", winner, result="intercepted"))
        done = [f"{winner} take", f"{winner} confirm", f"{winner} close"]
        await until(lambda: stored(world), ("closed", winner, done))
    assert len(decided(world)) == 3


async def test_a_decider_that_is_killed_between_decision_and_answer_has_its_answer_given_once(
    world: DispatchWorld, client: CommandClient
) -> None:
    """By the next one, from what stands on the topic; the decision stands once."""
    dying = world.spawn("dying", ("-c", DIES))
    try:
        wanted = request("take")
        answer = client.begin(wanted)
        assert dying.process.wait(WITHIN_S) == -signal.SIGKILL
    finally:
        dying.end()
    assert world.records_of(EVENT_COMMAND) == []
    async with world.running():
        given = await asyncio.to_thread(answer.result, WITHIN_S)
    assert (given.state, given.version) == ("accepted", decided(world)[0].n)
    assert [one.command_id for one in decided(world)] == [wanted.command_id]
    assert len(world.records_of(EVENT_COMMAND)) == 1


async def test_what_was_taken_while_nobody_decided_is_said_once_somebody_does(
    world: DispatchWorld, client: CommandClient
) -> None:
    """Over a kill -9 of the dispatcher, with the time at which it was taken; also what an earlier
    version has acknowledged. The one who asks later learns who has it."""
    async with world.running():
        await raise_alarm(world)
    with pytest.raises(CommandUnanswered):
        await asyncio.to_thread(client.request, request("take", "li"), 0.2)
    taken_ms = now_ms()
    Acknowledgements(world.site).add("r:1", "li", taken_ms)
    running = world.spawn("killed")
    running.signal(signal.SIGKILL)
    running.process.wait()
    async with world.running():
        await until(lambda: stored(world)[:2], ("taken", "li"))
        answer = await ask(client, request("take", "wang"))
        assert (answer.code, answer.changed_by) == (ALREADY_TAKEN, "li")
    assert [(one.owner, one.stage) for one in decided(world)] == [("li", "taken")]


async def test_an_acknowledgement_of_an_earlier_version_becomes_a_decision_with_its_time(
    world: DispatchWorld,
) -> None:
    async with world.running():
        await raise_alarm(world)
    taken_ms = now_ms() - 3_600_000
    Acknowledgements(world.site).add("r:1", "zhao", taken_ms)
    async with world.running():
        await until(lambda: [one.owner for one in decided(world)], ["zhao"])
        await until(lambda: stored(world), ("taken", "zhao", ["zhao take"]))
    assert decided(world)[0].history[0].asked_at_ms == taken_ms


async def test_states_are_said_again_on_a_topic_that_was_made_anew(
    world: DispatchWorld, client: CommandClient
) -> None:
    """The store has them; the next decider goes on from them."""
    async with world.running():
        await raise_alarm(world)
        await ask(client, request("take"))
        await until(lambda: stored(world)[0], "taken")
    with closing(Admin(world.bus, client_id="test")) as admin:
        admin.delete_topic(STATE_ALARM)
        admin.ensure_topics([TOPICS[STATE_ALARM]])
    async with world.running():
        await until(lambda: [one.owner for one in decided(world)], ["li"])
        assert (await ask(client, request("take", "wang"))).changed_by == "li"
