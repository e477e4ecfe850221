"""The watch list while processes of the product are killed, at moments that are drawn.

Operators put and remove rules, take and judge alarms, import a list of fifty thousand plates; the city
drives cars that only a wildcard, a fuzzy, a list and an area rule find. Twenty by hand:

    ./databus test --repeat 20 -n 0 tests/processes/test_watch_list_kills.py -k one_machine
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from decided_watch_list import (
    DecidedWatchList,
    faults_of_alarm_states,
    faults_of_alarms,
    faults_of_answers,
    faults_of_decisions,
    faults_of_list,
    faults_of_stored_states,
    read_decided,
)
from operators_at_work import (
    LIST,
    AlarmOperator,
    ConsoleOperator,
    ListOperator,
    OperatorAtWork,
    RuleOperator,
)
from running_product import Demo, RunningProduct
from test_distributed import executors_of

from alarm.dispatch.reader import OperationsReader
from bus.contracts.alarm_states import AlarmState
from bus.contracts.topics import EVENT_COMMAND, STATE_ALARM
from deploy.roles.table import ALARM_STREAMS, driver_name
from deploy.servers.process import free_range

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(900)]

GROUP = "the watch list under kills"
IMPORT, EXECUTOR = "an import", "an executor of the watch list"
VICTIMS = ("dispatcher", ALARM_STREAMS, "dispatcher", "console", IMPORT, IMPORT)
"""The dispatcher's process is the decider's, too."""
QUIET_S = 3.0
RATE = "60"


class WatchListStory:
    """Operators at work on a running demo. `strike` kills one victim and waits until it is there
    again; `end` lets the operators finish, and checks."""

    def __init__(self, demo: Demo, seed: int) -> None:
        place = demo.place
        self._demo = demo
        self._dice = random.Random(seed)
        self._rules = RuleOperator(place, seed)
        self._alarms = AlarmOperator(place, seed)
        self._console = ConsoleOperator(place, seed)
        self._lists = ListOperator(place, seed)

    @property
    def _operators(self) -> tuple[OperatorAtWork, ...]:
        return (self._rules, self._alarms, self._console, self._lists)

    def begin(self) -> None:
        for one in self._operators:
            one.start()
        self._wait_until(lambda: bool(self._rules.expected), "the first rule is in force")

    def _wait_until(self, holds: Callable[[], bool], what: str) -> None:
        """An operator who was told something wrong ends it."""

        def is_done() -> bool:
            for one in self._operators:
                one.check()
            return holds()

        self._demo.wait_until(is_done, what)

    def strike(self, victim: str) -> None:
        self._pass(self._dice.uniform(0.2, QUIET_S))
        if victim == IMPORT:
            before = self._lists.killed
            self._lists.kill_next.set()
            self._wait_until(lambda: self._lists.killed > before, "an import is killed")
        elif victim == EXECUTOR:
            process = executors_of(watchlist_application(self._demo.place))[0]
            process.kill()
            self._demo.wait_until(lambda: not process.is_running(), "the executor is dead")
        else:
            self._demo.kill([victim])

    def end(self) -> list[str]:
        """What is wrong."""
        for one in self._operators:
            one.finish()
        place = self._demo.place
        self._demo.wait_until(lambda: read_decided(place.bootstrap).is_answered, "all is answered")
        self._demo.wait_until(self._is_stored, "the last states are stored")
        found = read_decided(place.bootstrap)
        asked = [one for who in (self._rules, self._alarms) for one in who.asked]
        print(self._summary(found))
        assert any(one.status == 0 for one in self._lists.imports)
        return [
            *faults_of_answers(found, asked),
            *faults_of_decisions(found),
            *faults_of_alarm_states(found, self._console),
            *faults_of_alarms(found, self._rules),
            *faults_of_list(found, self._lists.imports),
        ]

    def stop(self) -> None:
        """Ask for nothing more, whatever has happened."""
        for one in self._operators:
            one.stop()

    def _is_stored(self) -> bool:
        found = read_decided(self._demo.place.bootstrap)
        last = [one.alarm_id for one in found.structs(STATE_ALARM, AlarmState)]
        with closing(OperationsReader(self._demo.place.folder / "store" / "operations.db")) as reader:
            return not faults_of_stored_states(found, reader.alarm_states(last))

    def _pass(self, seconds: float) -> None:
        """What goes on meanwhile is what is to be struck."""
        self._rules.join(seconds)

    def _summary(self, found: DecidedWatchList) -> str:
        answers = Counter(one["state"] for one in found.values(EVENT_COMMAND))
        imports = Counter(one.status for one in self._lists.imports)
        return (
            f"answers {dict(answers)}, imports by status {dict(imports)} of {LIST}, "
            f"{len(self._rules.expected)} alarms of own rules, console {len(self._console.said)} said "
            f"and {len(self._console.perhaps)} unknown"
        )


def watchlist_application(place: RunningProduct) -> str:
    """As Spark gave its id out last."""
    log = (place.folder / "log" / f"{driver_name('watchlist')}.log").read_text("utf-8", "replace")
    found = [word for line in log.splitlines() for word in line.split() if word.startswith("app-")]
    return found[-1].partition("/")[0]


def play(place: RunningProduct, seed: int, victims: list[str], *words: str) -> None:
    """The whole story; `Demo.ctrl_c` checks the account: of the city's rules each expected alarm
    once, none unexpected."""
    random.Random(seed).shuffle(victims)
    print(f"the victims: {', '.join(victims)}")
    with Demo(place, "--rate", RATE, *words) as demo:
        demo.runs()
        story = WatchListStory(demo, seed)
        try:
            story.begin()
            for victim in victims:
                story.strike(victim)
            faults = story.end()
        finally:
            story.stop()
        account = demo.ctrl_c()
    assert faults == []
    assert account["alarms_raised"] > 0


@pytest.mark.rotates(GROUP)
def test_each_request_alarm_and_state_counts_once_over_kills_on_one_machine(
    tmp_path: Path, seed: int
) -> None:
    place = RunningProduct(tmp_path / "data")
    play(place, seed, list(VICTIMS), "--set", "streams.drivers=2")


@pytest.mark.rotates(GROUP)
def test_each_request_alarm_and_state_counts_once_over_kills_with_executors(
    tmp_path: Path, seed: int
) -> None:
    """Records are judged in an executor of a Spark cluster, which is killed, too."""
    place, port = RunningProduct(tmp_path / "data"), free_range(40)
    words = ["--spark-workers", "1", "--spark-port", str(port)]
    play(place, seed, [EXECUTOR, "dispatcher", driver_name("watchlist"), IMPORT], *words)
