"""`/metrics` and `/healthz` of a process that has no HTTP of its own, from a thread of its own.

In: a registry of prometheus_client. Out: a page that answers while the process works or waits.
Never: a reason for the process to end: a port that is taken is said, and the page is not there.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from functools import partial

from prometheus_client import CollectorRegistry

from bus.metrics.page import NO_PAGES, JsonPages, MetricsConnection
from bus.metrics.text import metrics_text

log = logging.getLogger(__name__)

NO_PORT = -1
START_S = 5.0


class MetricsServer:
    """One page. `port` is where it is; `NO_PORT` where it is not."""

    def __init__(
        self, host: str, port: int, registry: CollectorRegistry, pages: JsonPages = NO_PAGES,
        *, page_token: str = "",
    ) -> None:  # fmt: skip
        """`port` 0: any that is free; `NO_PORT`: none is wanted. `pages` are called in a thread.
        Without `page_token` nobody is asked for one."""
        self.port = NO_PORT
        self._loop = asyncio.new_event_loop()
        self._render = partial(_text, registry)
        self._pages = pages
        self._page_token = page_token
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(host, port), name="metrics", daemon=True
        )
        if port != NO_PORT:
            self._thread.start()
            self._ready.wait(START_S)

    def close(self) -> None:
        """End the page."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(START_S)

    def _run(self, host: str, port: int) -> None:
        try:
            server = self._loop.run_until_complete(
                self._loop.create_server(
                    lambda: MetricsConnection(
                        self._render, self._pages, page_token=self._page_token
                    ),
                    host,
                    port,
                )
            )
        except OSError as error:
            log.warning("no page of metrics at %s:%d: %s", host, port, error.strerror)
            self._ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        log.info("metrics: http://%s:%d/metrics", host, self.port)
        self._ready.set()
        self._loop.run_forever()
        server.close()
        self._loop.close()


def _text(registry: CollectorRegistry) -> str:
    return metrics_text(registry).decode()
