"""Somebody who asks edge and console one question after the other, all the time.

In: a running product. Out: the moment of every answer, in epoch milliseconds. Never: an answer that
refused: it is asked again, and the time goes on.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator

from bus.domain.times import local_time
from bus.runtime.wall_clock import now_ms
from bus.settings import SiteSettings
from deploy.bench.ingest.devices import devices
from deploy.bench.ingest.product import Product
from monitor.accounts.roles import AccountRole
from monitor.accounts.store import AccountStore

EVERY_S = 0.05
RULE_EVERY_S = 0.25
TIMEOUT_S = 60.0
WHO, PASSWORD = "bench", "a long word for one bench 7"

Ask = Callable[[http.client.HTTPConnection, int], http.client.HTTPResponse]


@contextlib.contextmanager
def edge_answers(product: Product) -> Iterator[list[float]]:
    """A camera that sends a record whenever the one before is acknowledged."""
    record, clock = devices()[0], local_time(SiteSettings().zone)

    def ask(connection: http.client.HTTPConnection, number: int) -> http.client.HTTPResponse:
        body = {**record, "记录编号": f"answers-{number}", "抓拍时间": clock.to_text(now_ms())}
        text = json.dumps(body, ensure_ascii=False).encode()
        connection.request("POST", "/v1/records/vehicle", text, _JSON)
        return connection.getresponse()

    with _asked(product.port("edge"), ask, EVERY_S) as moments:
        yield moments


@contextlib.contextmanager
def rule_answers(product: Product) -> Iterator[list[float]]:
    """An operator who changes a rule that finds nothing, again and again."""
    with contextlib.closing(AccountStore(product.folder)) as accounts:
        accounts.add(WHO, PASSWORD, [AccountRole.OPERATOR])
    secret = base64.b64encode(f"{WHO}:{PASSWORD}".encode()).decode()
    headers = {**_JSON, "Authorization": f"Basic {secret}"}

    def ask(connection: http.client.HTTPConnection, number: int) -> http.client.HTTPResponse:
        rule = {"name": "answers", "rule_id": "answers", "match": {"plate_number": ["京Z00000"]},
                "note": str(number)}  # fmt: skip
        text = json.dumps(rule, ensure_ascii=False).encode()
        connection.request("POST", "/api/watch", text, headers)
        return connection.getresponse()

    with _asked(product.port("console"), ask, RULE_EVERY_S) as moments:
        yield moments


_JSON = {"Content-Type": "application/json"}


@contextlib.contextmanager
def _asked(port: int, ask: Ask, every_s: float) -> Iterator[list[float]]:
    moments: list[float] = []
    closing = threading.Event()

    def run() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)
        for number in itertools.count():
            if closing.wait(every_s):
                break
            try:
                answer = ask(connection, number)
                answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                continue
            if answer.status < 300:
                moments.append(time.time() * 1000)
        connection.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield moments
    finally:
        closing.set()
        thread.join(TIMEOUT_S)
