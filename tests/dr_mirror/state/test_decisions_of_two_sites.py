"""What was decided on rules, lists and alarms is in force at the other site; what nobody had decided on
when the sites changed is decided nowhere, and whoever asked is told.

Real brokers, a real mirror, a decider at each site.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bus.client.kafka.admin import Admin
from bus.client.kafka.command_client import CommandClient, new_command_id
from bus.contracts.alarm_states import AlarmRequest, AlarmState
from bus.contracts.command_codes import NOT_PRIMARY
from bus.contracts.commands import Command, CommandAnswer, DecidedRule, WatchCommand
from bus.contracts.proposals import beside_rules
from bus.contracts.topics import DATA_VEHICLE, EVENT_COMMAND, STATE_ALARM, STATE_WATCHLIST, TOPICS
from bus.domain.policy import PolicySettings
from bus.settings import BusSettings
from deploy.servers.databus_cluster import RunningCluster
from tests.dr_mirror.state.test_state import put, records, waiting
from tests.dr_mirror.switch.test_switch import Sites, both_sites
from tests.dr_mirror.two_sites import wait_until
from tests.running_decider import DECIDED, running_decider

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

APPROVED = PolicySettings(requires_approval=True, requires_reason=False)
FORCE = ("--force", "--it-answers")


@contextmanager
def watched_sites(folder: Path) -> Iterator[Sites]:
    """Both have all topics of decisions."""
    with both_sites(folder) as sites:
        for name, cluster in sites.clusters.items():
            with closing(Admin(bus(cluster), client_id="test")) as admin:
                admin.ensure_topics([TOPICS[one] for one in DECIDED])
                if name == "A":
                    admin.ensure_topics([TOPICS[DATA_VEHICLE]])
        sites.wait_until_copying("A")
        yield sites


def bus(cluster: RunningCluster) -> BusSettings:
    return BusSettings(bootstrap_servers=cluster.bootstrap)


def decided(cluster: RunningCluster, topic: str, kind: type[Any]) -> list[Any]:
    found = (one.value for one in records(cluster, topic) if one.value is not None)
    return [msgspec.json.decode(one, type=kind) for one in found if beside_rules(one) is None]


def rules_at(cluster: RunningCluster) -> dict[str, str]:
    """Of each rule what was decided last."""
    return {one.rule_id: one.op for one in decided(cluster, STATE_WATCHLIST, DecidedRule)}


def alarms_at(cluster: RunningCluster) -> dict[str, tuple[int, str, str]]:
    """Epoch, stage and owner of the state that counts, as every reader takes the larger version."""
    newest: dict[str, AlarmState] = {}
    for one in decided(cluster, STATE_ALARM, AlarmState):
        if one.alarm_id not in newest or one.version >= newest[one.alarm_id].version:
            newest[one.alarm_id] = one
    return {key: (one.epoch, one.stage, one.owner) for key, one in newest.items()}


def answers_at(cluster: RunningCluster, command: Command) -> list[CommandAnswer]:
    found = decided(cluster, EVENT_COMMAND, CommandAnswer)
    return [one for one in found if one.command_id == command.command_id]


def rule(rule_id: str, account: str = "li", **fields: Any) -> WatchCommand:
    given = {
        "rule_id": rule_id, "op": "put", "version": 1, "name": "n", "match": {"plate_number": ["浙AWL999"]},
        "account": account, "command_id": new_command_id(), **fields,
    }  # fmt: skip
    return msgspec.convert(given, WatchCommand)


def take(account: str, alarm_id: str = "r:1", op: str = "take", **fields: Any) -> AlarmRequest:
    given = {"alarm_id": alarm_id, "op": op, "account": account, "command_id": new_command_id()}
    return msgspec.convert({**given, **fields}, AlarmRequest)


def ask(cluster: RunningCluster, *wanted: Command) -> list[CommandAnswer]:
    with closing(CommandClient(bus(cluster), "main", "test")) as client:
        return [client.request(one, 60) for one in wanted]


def leave(cluster: RunningCluster, *wanted: Command) -> None:
    """On the topic, where nobody decides."""
    for one in wanted:
        put(cluster, one.TOPIC, one.key, one)


def test_what_stood_unanswered_at_a_planned_switch_is_refused_once_and_decided_nowhere(
    tmp_path: Path,
) -> None:
    """Rules, proposals and alarm states that were decided are at B; B goes on from them in its own
    epoch; who asked at A is told that the site has changed."""
    with watched_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        with running_decider(a.bootstrap, APPROVED):
            proposed, emergency = ask(a, rule("r"), rule("e", emergency_hours=2, reason="why"))
            assert (proposed.state, emergency.state) == ("proposed", "accepted")
            assert [one.state for one in ask(a, take("li"), take("li", op="confirm"))] == ["accepted"] * 2
            wait_until(lambda: waiting(b) == ["r"], "the proposal is at B")
            wait_until(lambda: rules_at(b) == {"e": "put"}, "the emergency is at B")
            wait_until(lambda: alarms_at(b) == {"r:1": (0, "confirmed", "li")}, "the state is at B")
        left = [rule("left"), take("wang", "r:2"), take("li", op="close", result="checked")]
        leave(a, *left)
        done = sites.switch("B")
        assert done.returncode == 0, done.stdout + done.stderr
        sites.wait_until_copying("B")
        with ExitStack() as running:
            for one in (a, b):
                running.enter_context(running_decider(one.bootstrap, APPROVED))
            for one in left:
                wait_until(lambda one=one: len(answers_at(a, one)) == 1, "it is answered at A")
                [said] = answers_at(a, one)
                assert (said.state, said.code) == ("refused", NOT_PRIMARY)
                assert "the site has changed" in said.text
            [late] = ask(a, rule("late"))
            assert (late.code, "mirrors another one" in late.text) == (NOT_PRIMARY, True)
            [text] = [one for one in records(b, STATE_WATCHLIST) if one.key == b"r~proposed"]
            waits = msgspec.json.decode(text.value or b"")
            assert waits["version"] == proposed.version
            closed, other = ask(b, take("wang", op="close", result="checked"), take("wang", "r:3"))
            assert (closed.state, other.state) == ("accepted", "accepted")
            after = {"r:1": (1, "closed", "li"), "r:3": (1, "taken", "wang")}
            wait_until(lambda: alarms_at(a) == after, "what B has decided is at A")
        assert alarms_at(b) == after
        assert "left" not in rules_at(a) | rules_at(b)


def test_what_a_lost_site_had_not_answered_is_told_at_its_way_back_and_decided_nowhere(
    tmp_path: Path,
) -> None:
    """A dies with requests that nobody has decided on. It comes back, with its decider, before the
    mirror and before the way back: it decides nothing then, and says afterwards that the site has
    changed. What both have decided of an alarm becomes the larger (epoch, n)."""
    with watched_sites(tmp_path) as sites:
        a, b = sites.clusters["A"], sites.clusters["B"]
        with running_decider(a.bootstrap):
            assert ask(a, take("li"))[0].state == "accepted"
            wait_until(lambda: alarms_at(b) == {"r:1": (0, "taken", "li")}, "the state is at B")
            sites.mirror.kill()
            assert ask(a, take("li", op="confirm"), take("li", "r:2"))[1].state == "accepted"
        left = [rule("left"), take("wang", "r:4")]
        leave(a, *left)
        a.kill(1)
        done = sites.switch("B", "--force")
        assert done.returncode == 0, done.stdout + done.stderr
        with running_decider(b.bootstrap):
            assert ask(b, take("li", op="false", why="misread"))[0].state == "accepted"
            assert ask(b, rule("new"))[0].state == "accepted"
        a.restart(1)
        with ExitStack() as running:
            # It waits: nobody has told it yet which site is the primary.
            decider = running_decider(a.bootstrap, is_awaited=False)
            running.enter_context(decider)
            assert [answers_at(a, one) for one in left] == [[], []]
            sites.mirror.start()
            back = sites.switch("", "--back")
            assert back.returncode == 0, back.stdout + back.stderr
            sites.wait_until_copying("B")
            for one in left:
                wait_until(lambda one=one: len(answers_at(a, one)) == 1, "it is told at A")
                [said] = answers_at(a, one)
                assert (said.state, said.code) == ("refused", NOT_PRIMARY)
                assert "the site has changed" in said.text
            merged = {"r:1": (1, "false", "li"), "r:2": (0, "taken", "li")}
            wait_until(lambda: alarms_at(a) == merged, "the larger pair counts at A")
        assert alarms_at(b)["r:1"] == merged["r:1"]
        assert rules_at(a) == rules_at(b) == {"new": "put"}
