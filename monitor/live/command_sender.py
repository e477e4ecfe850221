"""Sends operators' commands and waits for what was decided of them (I-3: commands are
synchronous)."""

from __future__ import annotations

import asyncio

from bus.client.kafka.command_client import (
    ANSWER_S,
    CommandClient,
    CommandNotAcknowledged,
    CommandUnanswered,
)
from bus.contracts.commands import Command, CommandAnswer
from bus.settings import BusSettings

__all__ = ["CommandNotAcknowledged", "CommandRefused", "CommandSender", "CommandUnanswered"]


class CommandRefused(Exception):
    """The site's decider has refused a command; `answer` says why."""

    def __init__(self, answer: CommandAnswer) -> None:
        super().__init__(answer.text)
        self.answer = answer
        self.field = answer.field
        self.code = answer.code


class CommandSender:
    """One client, connected with the first command."""

    def __init__(self, bus: BusSettings, site: str) -> None:
        self._client = CommandClient(bus, site, "databus-console")
        self._lock = asyncio.Lock()

    async def send(self, command: Command) -> CommandAnswer:
        """Returns when the command was accepted. Raises `CommandNotAcknowledged`,
        `CommandUnanswered`, `CommandRefused`."""
        async with self._lock:  # one thread at most; what is waited for holds none
            begun = await asyncio.to_thread(self._client.begin, command)
        try:
            answer = await asyncio.wait_for(asyncio.wrap_future(begun), ANSWER_S)
        except TimeoutError as error:
            raise CommandUnanswered(command.command_id, ANSWER_S) from error
        if answer.state == "refused":
            raise CommandRefused(answer)
        return answer

    def close(self) -> None:
        """End the client's threads and its connections."""
        self._client.close()
