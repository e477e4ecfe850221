"""One request over HTTPS, at a real server that answers what it likes, as slowly as it likes."""

from __future__ import annotations

import functools
import re
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from bus.runtime.https_call import HttpsCallError, https_call
from tests.tls_files import TlsFiles

pytestmark = pytest.mark.slow

TIMEOUT_S = 60.0
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
Answer = Callable[[ssl.SSLSocket], None]


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@functools.cache
def certificate_of(tls: TlsFiles, host: str) -> tuple[Path, Path]:
    return tls.signed(host.replace(":", "-"), f"subjectAltName={host}")


class OneAnswerServer:
    """Answers one connection, with `answer`; `asked` is what came first."""

    def __init__(self, tls: TlsFiles, answer: Answer, host: str) -> None:
        certificate, key = certificate_of(tls, host)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._answer = answer
        self.asked = b""
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._listening.settimeout(TIMEOUT_S)
        self.port = self._listening.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            plain, _ = self._listening.accept()
            plain.settimeout(TIMEOUT_S)
            with self._context.wrap_socket(plain, server_side=True) as client:
                while not self._is_whole():
                    self.asked += client.recv(65_536)
                self._answer(client)

    def _is_whole(self) -> bool:
        """What is closed with something unread loses its answer."""
        head, end, body = self.asked.partition(b"\r\n\r\n")
        size = re.search(rb"(?i)content-length: (\d+)", head)
        return bool(end) and len(body) >= int(size[1] if size else 0)

    def stop(self) -> None:
        self._listening.close()
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()


@contextmanager
def serving(tls: TlsFiles, answer: Answer, host: str = "IP:127.0.0.1") -> Iterator[OneAnswerServer]:
    server = OneAnswerServer(tls, answer, host)
    try:
        yield server
    finally:
        server.stop()


def called(server: OneAnswerServer, tls: TlsFiles | None, timeout_s: float = TIMEOUT_S, **more: object) -> bytes:
    context = ssl.create_default_context(cafile=str(tls.authority) if tls else None)
    return https_call(f"https://127.0.0.1:{server.port}/keys?a=b", context, timeout_s=timeout_s,
                      most_bytes=100, **more)  # type: ignore[arg-type]  # fmt: skip


def with_body(body: bytes, more: bytes = b"") -> Answer:
    head = HEAD + more + f"Content-Length: {len(body)}\r\n\r\n".encode()
    return lambda client: client.sendall(head + body)


def test_a_document_and_a_form(tls: TlsFiles) -> None:
    with serving(tls, with_body(b"x" * 100)) as server:
        assert called(server, tls) == b"x" * 100
        assert server.asked.startswith(b"GET /keys?a=b HTTP/1.1\r\n")
    with serving(tls, with_body(b"ok")) as server:
        assert called(server, tls, form={"a": "b c&d"}, headers={"Authorization": "Basic x"}) == b"ok"
        assert server.asked.startswith(b"POST /keys?a=b HTTP/1.1\r\n")
        assert b"Authorization: Basic x\r\n" in server.asked


def endless(client: ssl.SSLSocket) -> None:
    client.sendall(HEAD + b"\r\n")
    for _ in range(10_000):
        client.sendall(b"x" * 1000)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (with_body(b"x" * 101), "more than 100 bytes"),
        (endless, "more than 100 bytes"),
        (lambda client: client.sendall(b"HTTP/1.1 302 Found\r\nLocation: https://127.0.0.1/\r\n\r\n"), "status 302"),
        (lambda client: client.sendall(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"), "status 500"),
        (lambda client: client.sendall(b"garbage\r\n\r\n"), ""),
        (lambda client: None, ""),
        (lambda client: client.sendall(HEAD + b"Content-Length: 50\r\n\r\nx"), ""),
        (lambda client: client.sendall(HEAD + b"X: " + b"y" * 1_000_000), ""),
    ],
)  # fmt: skip
def test_what_is_no_answer_is_an_error_that_says_so(tls: TlsFiles, answer: Answer, said: str) -> None:
    """No redirect is followed: it could lead anywhere."""
    with serving(tls, answer) as server, pytest.raises(HttpsCallError) as refused:
        called(server, tls)
    assert said in str(refused.value)
    assert str(refused.value)


def test_nothing_is_unpacked(tls: TlsFiles) -> None:
    """A few bytes that would become gigabytes stay a few bytes."""
    with serving(tls, with_body(b"\x1f\x8b", b"Content-Encoding: gzip\r\n")) as server:
        assert called(server, tls) == b"\x1f\x8b"
        assert b"Accept-Encoding: identity\r\n" in server.asked


@pytest.mark.parametrize("part", ["silence", "head", "body"])
def test_a_call_ends_in_time_however_slowly_bytes_come(tls: TlsFiles, part: str) -> None:
    """A byte now and then keeps no call alive."""
    over = threading.Event()

    def slowly(client: ssl.SSLSocket) -> None:
        if part == "body":
            client.sendall(HEAD + b"Content-Length: 99\r\n\r\n")
        elif part == "head":
            client.sendall(HEAD + b"X: ")
        with suppress(OSError):
            while not over.wait(0.05):
                if part != "silence":
                    client.sendall(b"y")

    with serving(tls, slowly) as server:
        began = time.monotonic()
        try:
            with pytest.raises(HttpsCallError, match="no whole answer within 1 seconds"):
                called(server, tls, 1.0)
        finally:
            over.set()
        assert time.monotonic() - began < TIMEOUT_S


def test_a_server_that_is_not_the_one_that_was_meant_gets_nothing(tls: TlsFiles) -> None:
    """Its certificate is another host's, or nobody vouches for it."""
    for trusted, host in ((tls, "DNS:elsewhere.test"), (None, "IP:127.0.0.1")):
        with serving(tls, with_body(b"x"), host) as server:
            with pytest.raises(HttpsCallError, match="CERTIFICATE_VERIFY_FAILED"):
                called(server, trusted, headers={"Authorization": "planted-secret"})
            assert server.asked == b""


def test_a_server_that_is_not_there_and_an_address_that_is_none(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    context = ssl.create_default_context()
    for url in (f"https://127.0.0.1:{port}/", "https://127.0.0.1:99999/", "https://[x/", "ftp://x/"):
        with pytest.raises(HttpsCallError):
            https_call(url, context, timeout_s=TIMEOUT_S, most_bytes=1)
