"""A site's topic of lists and what its decider knows, for tests of what becomes of requests."""

from __future__ import annotations

import msgspec

from alarm.decisions.answered_commands import AnsweredCommands
from alarm.decisions.known_lists import KnownLists
from alarm.decisions.list_machine import ListMachine
from alarm.decisions.machine import Decided, decide
from alarm.decisions.requests import CommandRequest
from bus.client.model import ConsumedRecord
from bus.contracts.commands import CommandAnswer
from bus.contracts.plate_lists import ListCommand, ListLine, ListRecord, NamedChunk, base_key
from bus.contracts.topics import CONTROL_LISTS, EVENT_COMMAND, STATE_LISTS
from bus.domain.list_chunks import base_chunks
from bus.domain.policy import NO_POLICY, PolicySettings

NOW_MS = 1_795_000_000_000
BASE, OTHER_BASE = "a" * 32, "b" * 32


def lines(count: int, letter: str = "A") -> list[ListLine]:
    return [ListLine(number + 1, f"浙{letter}{number:05d}") for number in range(count)]


class ListWorld:
    """Topics of lists and answers, and what is known of them."""

    def __init__(self, policy: PolicySettings = NO_POLICY) -> None:
        self.machine = ListMachine(policy=policy)
        self.known, self.answered = KnownLists(), AnsweredCommands()
        self.records: list[ConsumedRecord] = []
        self.answers: list[ConsumedRecord] = []
        self._asked = 0

    def write(self, key: str, value: bytes | None, at_ms: int = NOW_MS) -> None:
        self.records.append(
            ConsumedRecord(STATE_LISTS, 0, len(self.records), at_ms, key.encode(), value, ())
        )
        self.known.apply(self.records[-1])

    def base(self, count: int = 10, base: str = BASE, at_ms: int = NOW_MS) -> tuple[NamedChunk, ...]:
        chunks = list(base_chunks(lines(count)))
        for one in chunks:
            self.write(base_key("l", base, one.named.number), one.value, at_ms)
        return tuple(one.named for one in chunks)

    def request(self, op: str, **fields: object) -> CommandRequest[ListCommand]:
        self._asked += 1
        usual: dict[str, object] = {"list_id": "l", "op": op, "command_id": f"c{self._asked}", "account": "li"}
        if op == "put":
            usual |= {"name": "n", "base": BASE, "seen_version": self.known.get("l").version
                      if self.known.get("l").op == "put" else 0}  # fmt: skip
            usual["chunks"] = fields.pop("chunks", None) or self.base()
        if op == "change":
            usual["put_lines"] = (ListLine(0, "沪B12345"),)
        command = msgspec.convert({**usual, **fields}, ListCommand)
        value = msgspec.json.encode(command)
        record = ConsumedRecord(CONTROL_LISTS, 0, self._asked, 1, b"l", value, ())
        return self.machine.decode(record, "t")

    def decide(self, asked: CommandRequest[ListCommand], now_ms: int = NOW_MS, *, is_primary: bool = True) -> Decided:
        return decide(self.machine, asked, self.known, self.answered, now_ms, is_primary=is_primary)

    def record(self, decision: Decided) -> None:
        for key, value in decision.records:
            self.write(key.decode(), value)

    def answer(self, decision: Decided) -> None:
        if decision.answer is not None:
            value = msgspec.json.encode(decision.answer)
            self.answers.append(ConsumedRecord(EVENT_COMMAND, 0, 0, 1, b"", value, ()))
            self.answered.apply(self.answers[-1])

    def carry_out(self, asked: CommandRequest[ListCommand], now_ms: int = NOW_MS) -> CommandAnswer:
        decision = self.decide(asked, now_ms)
        self.record(decision)
        self.answer(decision)
        assert decision.answer is not None
        return decision.answer

    def asked(self, op: str, now_ms: int = NOW_MS, **fields: object) -> CommandAnswer:
        return self.carry_out(self.request(op, **fields), now_ms)

    @property
    def in_force(self) -> ListRecord:
        return self.known.get("l")
