"""Bearer tokens of one client, from its token service (OAuth 2.0, client credentials).

In: a service's URL, a client's id and secret. Out: tokens, each for all connections that are opened
while it lasts. Raises LoginRefused, ConnectionError; neither has a secret or a token. Never: two
fetches at once, or more than one a second while they fail.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bus.client.wire.sasl import LoginRefused
from bus.runtime.https_call import HttpsCallError, https_call
from bus.security.oauth_bearer import MOST_TOKEN_CHARACTERS, ClientFirstMessage

TIMEOUT_S = 10.0
MOST_ANSWER_BYTES = 256 * 1024
RENEWED_AFTER = 0.8
"""Of a token's life: then a new one is fetched for the next connection, as Java's client does."""
BETWEEN_FAILURES_S = 1.0
_SERVERS_FAULT = 500


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """What the service is asked for, by whom."""

    url: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""


@dataclass(frozen=True, slots=True)
class _Held:
    """A token; times are monotonic seconds."""

    token: str = field(repr=False)
    renew_at: float
    ends_at: float


class TokenEndpoint:
    """Implements TokenSource, for any number of threads.

    Invariant: `_held` is the newest token, which may have ended; `_failure` why the last fetch was
    none.
    """

    def __init__(
        self,
        request: TokenRequest,
        context: ssl.SSLContext,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`context`: whose certificates the service may have."""
        self._request, self._context, self._monotonic = request, context, monotonic
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._failure: Exception | None = None
        self._failed_at = float("-inf")

    @property
    def is_prepared(self) -> bool:
        """Whether the token is far from its end."""
        held = self._held
        return held is not None and self._monotonic() < held.renew_at

    def prepare(self) -> None:
        """Fetch a token if the one that is there is near its end. One that has not ended is kept
        where none can be fetched."""
        with self._lock:
            if self.is_prepared:
                return
            if self._failure is None or self._monotonic() - self._failed_at >= BETWEEN_FAILURES_S:
                self._fetch()
            has_ended = self._held is None or self._monotonic() >= self._held.ends_at
            if self._failure is not None and has_ended:
                raise self._failure

    def held(self) -> str:
        """The newest token."""
        if self._held is None:
            raise LoginRefused("no token has been fetched yet")
        return self._held.token

    def _fetch(self) -> None:
        self._failure = None
        try:
            self._held = self._parsed(self._ask())
        except HttpsCallError as error:
            self._failure = self._why(error)
            self._failed_at = self._monotonic()
        except ValueError:
            self._failure = LoginRefused(f"{self._request.url} answers with no token")
            self._failed_at = self._monotonic()

    def _ask(self) -> bytes:
        request = self._request
        named = f"{request.client_id}:{request.client_secret}".encode()
        form = {"grant_type": "client_credentials"}
        if request.scope:
            form["scope"] = request.scope
        return https_call(
            request.url,
            self._context,
            timeout_s=TIMEOUT_S,
            most_bytes=MOST_ANSWER_BYTES,
            form=form,
            headers={"Authorization": f"Basic {base64.b64encode(named).decode()}",
                     "Accept": "application/json"},
        )  # fmt: skip

    def _why(self, error: HttpsCallError) -> Exception:
        where = f"the token service {self._request.url}"
        if error.status is None or error.status >= _SERVERS_FAULT:
            return ConnectionError(f"{where} gives no token: {error}")
        return LoginRefused(
            f"{where} gives the client {self._request.client_id!r} no token: {error}; look at its "
            "id, its secret and its scope"
        )

    def _parsed(self, answer: bytes) -> _Held:
        """Raises ValueError."""
        try:
            found = json.loads(answer)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        token = found.get("access_token") if isinstance(found, dict) else None
        if not isinstance(token, str) or not 0 < len(token) <= MOST_TOKEN_CHARACTERS:
            raise ValueError("no access_token")
        ClientFirstMessage(token).encode()  # raises ValueError for what could not be sent
        now, lifetime_s = self._monotonic(), _lifetime_s(found.get("expires_in"))
        return _Held(token, now + lifetime_s * RENEWED_AFTER, now + lifetime_s)


def _lifetime_s(expires_in: Any) -> float:
    """Of a token whose service does not say so: none, so that each connection fetches its own."""
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float):
        return 0.0
    return min(max(float(expires_in), 0.0), 1e9)
