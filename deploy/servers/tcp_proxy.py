"""A proxy in front of a real server, which may refuse new lines or keep answers back.

In: where the server listens. Out: an address of its own. Never: a change of what passes through.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

HOST = "127.0.0.1"
CHUNK = 64 << 10


class TcpProxy:
    """Invariant: bytes pass in their order, or not at all."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._speaks = threading.Event()
        self._speaks.set()
        self.refuses_new = False
        """New lines are closed at once; those that are open go on."""
        self._listener = socket.create_server((HOST, 0))
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def be_silent(self) -> None:
        """Requests pass, answers do not."""
        self._speaks.clear()

    def speak(self) -> None:
        """The answers that were kept back pass, if somebody still waits for them."""
        self._speaks.set()

    def close(self) -> None:
        """End all lines."""
        self._speaks.set()
        for each in (self._listener, *self._sockets):
            _end(each)

    def __enter__(self) -> TcpProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            if self.refuses_new:
                client.close()
                continue
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            self._sockets += [client, server]
            for source, target, answers in ((client, server, False), (server, client, True)):
                threading.Thread(
                    target=self._pass_on, args=(source, target, answers), daemon=True
                ).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK):
                if answers:
                    self._speaks.wait()
                target.sendall(data)
        _end(source)
        _end(target)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
