"""Sends commands of operators and waits for the answers of the site's decider.

In: commands. Out: the answer to each, by its id. Never: "in force" for what only stands on the bus;
a second decision on a command that is sent again under its id.
"""

from __future__ import annotations

import logging
import threading
import uuid
from concurrent.futures import Future

import msgspec

from bus.client.kafka.cluster import end_offsets
from bus.client.kafka.config import FOLLOWS_LEADERS
from bus.client.kafka.errors import ClientFailed, DeliveryError
from bus.client.kafka.producer import DeliveryReport, Producer
from bus.client.kafka.topic_reader import CatchUpTimeout, TopicReader
from bus.contracts.commands import Command, CommandAnswer
from bus.contracts.headers import SCHEMA, SITE
from bus.contracts.topics import EVENT_COMMAND, TOPICS
from bus.errors import BusError
from bus.settings import BusSettings

log = logging.getLogger(__name__)

DELIVERY_S = 5.0  # an operator waits for it
ANSWER_S = 8.0  # a session (6 s) and what a take-over costs: so long a decider may change
POLL_S = 0.2  # how long a stop may wait

_decode = msgspec.json.Decoder(CommandAnswer).decode


class CommandNotAcknowledged(Exception):
    """The brokers have not acknowledged the command; the same one may be sent again: its id makes
    it one."""


class CommandUnanswered(Exception):
    """It stands on the bus, and nobody has decided on it yet."""

    def __init__(self, command_id: str, seconds: float) -> None:
        super().__init__(
            f"the request {command_id} is on the bus, and nobody has decided on it within "
            f"{seconds:g} s: no dispatcher works. It is decided when one does"
        )
        self.command_id = command_id


def new_command_id() -> str:
    """Of a command that is not sent yet."""
    return uuid.uuid4().hex


class CommandClient:
    """For any thread. Connected with the first command; `close` it."""

    def __init__(self, bus: BusSettings, site: str, client_id: str) -> None:
        self._bus = bus
        self._client_id = client_id
        self._site = site
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._producer: Producer | None = None
        self._reader: threading.Thread | None = None
        self._waiting: dict[str, Future[CommandAnswer]] = {}

    def request(self, command: Command, timeout_s: float = ANSWER_S) -> CommandAnswer:
        """Send a command that has an id, and wait. Raises `CommandNotAcknowledged`,
        `CommandUnanswered`."""
        answer = self.begin(command)
        try:
            return answer.result(timeout_s)
        except TimeoutError as error:
            answer.cancel()
            raise CommandUnanswered(command.command_id, timeout_s) from error

    def begin(self, command: Command) -> Future[CommandAnswer]:
        """Returns when the command is on its topic. A future that is cancelled is waited for no
        more. Raises `CommandNotAcknowledged`."""
        answer: Future[CommandAnswer] = Future()
        try:
            with self._lock:
                producer = self._connected()
            self._waiting[command.command_id] = answer
            answer.add_done_callback(lambda _: self._waiting.pop(command.command_id, None))
            self._send(producer, command)
        except (BusError, CatchUpTimeout, TimeoutError) as error:
            answer.cancel()
            if isinstance(error, ClientFailed):
                self._producer = None  # the next command makes another one
            why = str(error) or f"{self._bus.bootstrap_servers} did not answer"
            raise CommandNotAcknowledged(why) from error
        return answer

    def close(self) -> None:
        """End threads and connections."""
        self._closing.set()
        if self._reader is not None:
            self._reader.join()
        if self._producer is not None:
            self._producer.close(0)

    def _send(self, producer: Producer, command: Command) -> None:
        sent: Future[DeliveryReport] = Future()
        headers = [(SCHEMA, TOPICS[command.TOPIC].schema), (SITE, self._site)]
        producer.send(
            command.TOPIC, msgspec.json.encode(command), key=command.key,
            headers=headers, on_delivery=sent.set_result, wait_s=DELIVERY_S,
        )  # fmt: skip
        report = sent.result(DELIVERY_S + 1)
        if isinstance(report, DeliveryError):
            raise report

    def _connected(self) -> Producer:
        """Raises BusError, `CatchUpTimeout`."""
        if self._reader is None or not self._reader.is_alive():
            reader = TopicReader(
                self._bus, [EVENT_COMMAND], end_offsets, client_id=f"{self._client_id}-answers",
                overrides={**FOLLOWS_LEADERS, "log_level": 0}, timeout_s=DELIVERY_S,
                stopping=self._closing,
            )  # fmt: skip
            self._reader = threading.Thread(
                target=self._read_answers, args=(reader,), name="answers", daemon=True
            )
            self._reader.start()
        if self._producer is None:
            timeout_ms = int(DELIVERY_S * 1000)
            changes = {
                **FOLLOWS_LEADERS, "message.timeout.ms": timeout_ms, "linger.ms": 0, "log_level": 0,
            }  # fmt: skip
            self._producer = Producer(self._bus, client_id=self._client_id, overrides=changes)
        return self._producer

    def _read_answers(self, reader: TopicReader) -> None:
        """Until closed; where it ends by an error, the next command begins it again."""
        try:
            while not self._closing.is_set():
                for record in reader.read_what_came(POLL_S):
                    self._on_answer(record.value or b"")
        except BusError as error:
            log.warning("answers to commands cannot be read: %s", error)
        finally:
            reader.close()

    def _on_answer(self, value: bytes) -> None:
        try:
            answer = _decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return  # somebody else has put it there
        waiting = self._waiting.get(answer.command_id)
        if waiting is not None and waiting.set_running_or_notify_cancel():
            waiting.set_result(answer)
