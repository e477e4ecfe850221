"""A forwarding process between a broker and all users of its advertised address.

    python -m tests.processes.cluster.slow_link LISTEN_PORT
In: commands on stdin, one per line: `to PORT`, `delay MS`, `rate BYTES_PER_SECOND`, `stall`,
`pass`. Out: the same bytes, later, slower, or not at all while the connections stay open. Never: a
byte changed or lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

HOST = "127.0.0.1"
CHUNK = 16_384


class SlowLink:
    """The current settings for all connections.

    Invariant: `_passing` is set exactly while bytes may pass.
    """

    def __init__(self) -> None:
        self._port = 0
        self._delay_s = 0.0
        self._rate = 0.0
        self._passing = asyncio.Event()
        self._passing.set()

    def obey(self, line: str) -> None:
        """Executes one command of the story."""
        match line.split():
            case ["to", port]:
                self._port = int(port)
            case ["delay", milliseconds]:
                self._delay_s = int(milliseconds) / 1000
            case ["rate", octets]:
                self._rate = float(octets)
            case ["stall"]:
                self._passing.clear()
            case ["pass"]:
                self._delay_s = self._rate = 0.0
                self._passing.set()

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forwards one connection until either side ends."""
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self._port)
        except OSError:
            writer.close()
            return
        tasks = [
            asyncio.create_task(self._carry(reader, far_writer)),
            asyncio.create_task(self._carry(far_reader, writer)),
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for end in (writer, far_writer):
            end.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self._delay_s:
                    await asyncio.sleep(self._delay_s)
                if self._rate:
                    await asyncio.sleep(len(data) / self._rate)
                await self._passing.wait()
                writer.write(data)
                await writer.drain()


async def serve(port: int) -> None:
    """Serves until stdin ends."""
    link = SlowLink()
    server = await asyncio.start_server(link.accept, HOST, port)
    print("ready", flush=True)
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        link.obey(line)
        print("done", flush=True)
    server.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
