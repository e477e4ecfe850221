"""Operators who go on working while processes of the product are killed: rules, alarms, a list.

In: a running product, a seed. Out: what each of them asked for, what was answered, which alarms must be
there. Never: a request whose fate is guessed: `decided_watch_list` reads it from the topics.
"""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
import httpx
import msgspec
from bad_records import message
from running_product import RunningProduct

from alarm.dispatch.reader import OperationsReader
from bus.client.kafka.command_client import (
    CommandClient,
    CommandNotAcknowledged,
    CommandUnanswered,
    new_command_id,
)
from bus.contracts.alarm_states import AlarmRequest
from bus.contracts.alarms import Alarm
from bus.contracts.commands import Command, CommandAnswer, WatchCommand
from bus.contracts.headers import RECORD_ID
from bus.contracts.topics import DATA_VEHICLE
from bus.domain.visibility import EVERYTHING
from bus.settings import BusSettings
from deploy.paths import PROJECT_ROOT
from ingest.store.port import StoreUnavailable
from monitor.accounts.errors import AccountsUnavailable
from monitor.accounts.one_time_links import issue_one_time_link

LIST, LINES = "kills", 50_000
SILENT = "10.99.0.8"  # a device that never sends its counters
CAUGHT_S = 120.0  # until an alarm is stored, over deaths on a busy machine
CONSOLE_S = 20.0
IMPORTED_S = 120.0
ASKED_AGAIN_S = 0.3
BETWEEN_IMPORTS_S = 1.0

EXACT, WILDCARD, FUZZY = "exact", "wildcard", "fuzzy"


class WatchedProbe(NamedTuple):
    """A rule, and a plate that it finds."""

    pattern: str
    plate: str


def probe(kind: str, number: int) -> WatchedProbe:
    """Of plates that no car of the city has."""
    tail = f"{number % 1000:03d}"
    return {
        EXACT: WatchedProbe(f"琼Z11{tail}", f"琼Z11{tail}"),
        WILDCARD: WatchedProbe(f"琼Z?2{tail}", f"琼ZX2{tail}"),
        FUZZY: WatchedProbe(f"~0.5:琼ZQ3{tail}", f"琼Z03{tail}"),
    }[kind]


class OperationsLook:
    """What the operations store has, read anew at each question: its file may not be there yet."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "store" / "operations.db"

    def alarms(self) -> list[Alarm]:
        """All of them, newest first."""
        found: list[Alarm] = []
        with suppress(StoreUnavailable), closing(OperationsReader(self._path)) as reader:
            found.extend(reader.every_alarm())
        return found

    def has(self, alarm_ids: Sequence[str]) -> bool:
        try:
            with closing(OperationsReader(self._path)) as reader:
                return all(reader.alarm(one, viewer=EVERYTHING) is not None for one in alarm_ids)
        except StoreUnavailable:
            return False


class ProbeSender:
    """Vehicle records with identities of their own, straight onto the bus and acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 0}
        )
        self._lock = threading.Lock()

    def send(self, plate: str, record_ids: Sequence[str]) -> None:
        """One each, at a checkpoint each: none is another one's passage."""
        failed: list[object] = []
        with self._lock:
            for number, record_id in enumerate(record_ids):
                body = message(
                    record_id, 车牌号码=plate, 卡口编号=f"330191#9#{number}#0", 抓拍设备地址=SILENT,
                    抓拍时间=time.strftime("%Y-%m-%d %H:%M:%S.000"),
                )  # fmt: skip
                self._producer.produce(
                    DATA_VEHICLE, json.dumps(body, ensure_ascii=False).encode(),
                    headers=[(RECORD_ID, record_id.encode())],
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )  # fmt: skip
            assert self._producer.flush(60) == 0
        assert failed == []


@dataclass
class AskedCommand:
    """What a person asked for; `answer` None where nobody answered in time."""

    command: Command
    answer: CommandAnswer | None = None


class OperatorAtWork(ABC, threading.Thread):
    """Works until told to stop; an error ends the thread and is raised by `finish`."""

    def __init__(self, place: RunningProduct, seed: int) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self.asked: list[AskedCommand] = []
        self._place = place
        self._dice = random.Random(f"{self.name} {seed}")
        self._bus = BusSettings(bootstrap_servers=place.bootstrap)
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._commands = CommandClient(self._bus, "main", self.name)

    def run(self) -> None:
        try:
            while not self._done.is_set():
                self.work()
        except BaseException as error:
            self._error = error
        finally:
            self._commands.close()

    @abstractmethod
    def work(self) -> None:
        """One round."""

    def check(self) -> None:
        """Raises what went wrong so far."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End after this round."""
        self._done.set()

    def finish(self) -> None:
        """End after this round; raises what went wrong."""
        self.stop()
        self.join(IMPORTED_S + CAUGHT_S)
        assert not self.is_alive(), f"{self.name} does not end"
        self.check()

    def ask(self, command: Command) -> CommandAnswer:
        """Until it is answered: a person asks again for what was not, under the same id."""
        asked = AskedCommand(command)
        self.asked.append(asked)
        deadline = time.monotonic() + CAUGHT_S
        while True:
            try:
                asked.answer = self._commands.request(command)
                return asked.answer
            except (CommandNotAcknowledged, CommandUnanswered):
                assert time.monotonic() < deadline, f"nobody decides on {command}"
                self._done.wait(ASKED_AGAIN_S)

    def wait_for(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + CAUGHT_S
        while not holds():
            assert time.monotonic() < deadline, what
            time.sleep(0.1)


class RuleOperator(OperatorAtWork):
    """Puts a rule, waits for its alarms, takes it off. `expected`: alarms of records that were sent
    while a rule was in force; `forbidden`: of those that were sent after its removal was answered."""

    def __init__(self, place: RunningProduct, seed: int) -> None:
        super().__init__(place, seed)
        self.expected: set[str] = set()
        self.forbidden: set[str] = set()
        self._look = OperationsLook(place.folder)
        self._sender = ProbeSender(place.bootstrap)
        self._numbers = itertools.count()

    def work(self) -> None:
        number = next(self._numbers)
        kind = (EXACT, WILDCARD, FUZZY)[number % 3]
        wanted, rule_id = probe(kind, number), f"kills-{kind}-{number}"
        put = WatchCommand(
            rule_id=rule_id, op="put", version=1, name=rule_id, quiet_s=0, match={"plate_number": [wanted.pattern]},
            account="li", command_id=new_command_id(), seen_version=0,
        )  # fmt: skip
        answer = self.ask(put)
        assert answer.state == "accepted", answer
        ids = [f"{rule_id}-{n}" for n in range(self._dice.randint(1, 4))]
        self._sender.send(wanted.plate, ids)
        due = [f"{rule_id}:{one}" for one in ids]
        self.expected.update(due)
        self.wait_for(lambda: self._look.has(due), f"no alarms {due}")
        removal = msgspec.structs.replace(
            put, op="remove", match={}, command_id=new_command_id(), seen_version=answer.version
        )
        assert self.ask(removal).state == "accepted"
        self._sender.send(wanted.plate, [f"{rule_id}-late"])
        self.forbidden.add(f"{rule_id}:{rule_id}-late")


class AlarmOperator(OperatorAtWork):
    """Two people at one desk take, judge, comment on and close what comes; some of it at once."""

    def __init__(self, place: RunningProduct, seed: int) -> None:
        super().__init__(place, seed)
        self._look = OperationsLook(place.folder)

    def work(self) -> None:
        alarms = self._look.alarms()
        if not alarms:
            self._done.wait(ASKED_AGAIN_S)
            return
        alarm_id = self._dice.choice(alarms[:20]).alarm_id
        for op in self._dice.choice((("take",), ("take", "confirm", "close"), ("comment", "take", "false"))):
            both = [self._request(alarm_id, op, name) for name in ("li", "wang")]
            futures = [threading.Thread(target=self.ask, args=(one,)) for one in both]
            for one in futures:
                one.start()
            for one in futures:
                one.join()

    def _request(self, alarm_id: str, op: str, account: str) -> AlarmRequest:
        more = {"false": {"why": "misread"}, "close": {"result": "checked"}, "comment": {"text": "seen"}}
        given: dict[str, Any] = {
            "alarm_id": alarm_id, "op": op, "account": account, "command_id": new_command_id(),
            **more.get(op, {}),
        }  # fmt: skip
        return msgspec.convert(given, AlarmRequest)


class ConsoleOperator(OperatorAtWork):
    """Comments on alarms in the console. `said`: texts that were answered with 200; `perhaps`: of
    which nothing is known, since the console died or could not say it in time."""

    def __init__(self, place: RunningProduct, seed: int) -> None:
        super().__init__(place, seed)
        self.said: set[str] = set()
        self.perhaps: set[str] = set()
        self._look = OperationsLook(place.folder)
        self._numbers = itertools.count()
        self._url = f"http://127.0.0.1:{place.console}"
        self._client: httpx.Client | None = None

    def work(self) -> None:
        alarms = self._look.alarms()
        client = self._logged_in() if alarms else None
        if client is None:
            self._done.wait(ASKED_AGAIN_S)
            return
        text = f"console {next(self._numbers)}"
        alarm_id = self._dice.choice(alarms[:20]).alarm_id
        try:
            reply = client.post(f"/api/alarms/{alarm_id}/comment", json={"text": text})
        except httpx.HTTPError:
            self.perhaps.add(text)
            self._client = None
            return
        if reply.status_code == 200:
            self.said.add(text)
        elif reply.status_code in (503, 504):
            self.perhaps.add(text)
        else:
            assert reply.status_code == 409, reply.text
        self._done.wait(0.1)

    def _logged_in(self) -> httpx.Client | None:
        """None while it cannot be reached."""
        if self._client is None:
            client = httpx.Client(base_url=self._url, timeout=CONSOLE_S, trust_env=False)
            try:
                link = issue_one_time_link(self._place.folder, base_url=self._url)
                client.get(link).raise_for_status()
            except (httpx.HTTPStatusError, httpx.TransportError, AccountsUnavailable):
                return None
            self._client = client
        return self._client


@dataclass
class Importing:
    """One import. `status`: its exit status; negative where it was killed."""

    version: int
    status: int = 0
    output: str = ""


class ListOperator(OperatorAtWork):
    """Imports version after version of one list, all of whose lines say which one it is."""

    def __init__(self, place: RunningProduct, seed: int) -> None:
        super().__init__(place, seed)
        self.imports: list[Importing] = []
        self.kill_next = threading.Event()
        self._numbers = itertools.count(1)

    @property
    def killed(self) -> int:
        """How many imports were, before their end."""
        return sum(one.status < 0 for one in self.imports)

    def work(self) -> None:
        version = next(self._numbers)
        file = self._place.folder.parent / f"list-{version}.csv"
        write_list(file, version)
        words = ["lists", "import", str(file), "--list", LIST, "--yes", "--json"]
        process = subprocess.Popen(
            [*self._place.command, *words], cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        is_due = self.kill_next.is_set()
        try:
            if is_due:
                time.sleep(self._dice.uniform(0.8, 4.0))  # its files are read, sent or decided on
                process.kill()
            output, _ = process.communicate(timeout=IMPORTED_S)
        finally:
            process.kill()
            file.unlink()
        self.imports.append(Importing(version, process.returncode, output[-1000:]))
        if process.returncode < 0:
            self.kill_next.clear()
        assert process.returncode in (-9, 0, 1, 3), output
        self._done.wait(BETWEEN_IMPORTS_S)


def write_list(file: Path, version: int) -> None:
    """Each line names its version; a fifth of the plates change each time."""
    with file.open("w", encoding="utf-8") as lines:
        lines.write("车牌,备注\n")
        for number in range(LINES):
            letter = "ABCDEFGH"[number % 8] if number % 5 else "JKLMN"[version % 5]
            lines.write(f"琼{letter}{number:05d},v{version}\n")
