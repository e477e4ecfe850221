"""Pictures by name: from this site's store, else from an edge of the other site.

In: names. Out: bytes and headers. Bounds: `TIMEOUT_S` in all, `MAX_BYTES`. Never: a redirect
followed, a proxy used, a host asked that is not in the settings.
"""

from __future__ import annotations

import time

import httpx

from bus.contracts.pictures import PICTURES_PREFIX, is_safe_name
from monitor.ports import ReadPicture

TIMEOUT_S = 3.0  # somebody is looking at a page
MAX_BYTES = 32 << 20


class OtherSiteUnavailable(OSError):
    """The other site's edge did not answer as it should; the text says why."""


class PicturesOfBothSites:
    """`read` is a `ReadPicture`."""

    def __init__(self, own: ReadPicture, url: str, token: str) -> None:
        self._own, self._url = own, url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def read(self, name: str) -> tuple[bytes, dict[str, str]] | None:
        """None: at neither site. Raises what the own store raises, and `OtherSiteUnavailable`."""
        found = self._own(name)
        if found is not None or not is_safe_name(name):
            return found
        try:
            return self._ask(name)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            text = f"not in this site's store, and the other site ({self._url}) does not answer: "
            raise OtherSiteUnavailable(text + (str(error) or type(error).__name__)) from error

    def _ask(self, name: str) -> tuple[bytes, dict[str, str]] | None:
        until, data = time.monotonic() + TIMEOUT_S, bytearray()
        address = self._url + PICTURES_PREFIX + name
        with (
            httpx.Client(timeout=TIMEOUT_S, trust_env=False, headers=self._headers) as client,
            client.stream("GET", address) as answer,
        ):
            if answer.status_code == 404:
                return None
            if answer.status_code != 200:
                raise OtherSiteUnavailable(f"{self._url} answers {answer.status_code}")
            for piece in answer.iter_raw():
                data += piece
                if len(data) > MAX_BYTES or time.monotonic() > until:
                    raise OtherSiteUnavailable(f"{self._url}: the picture is too large or slow")
            kept = ("content-type", "x-content-type-options", "cache-control")
            return bytes(data), {k: answer.headers[k] for k in kept if k in answer.headers}
