"""The cookie of a known device: a browser in which an account has logged in before (ADR 0080).

In: a cookie, a name. Out: the device's id if this very name has logged in there; a new cookie after
a log-in. Never: a way in; the cookie only takes its name out of what others do at the same address.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import NamedTuple

from itsdangerous import BadData, URLSafeTimedSerializer

MAX_NAMES = 16  # of one browser: several shifts at one desk; the oldest is forgotten
LIFETIME_S = 180 * 86_400
_PURPOSE = "databus known device"
_ID_BYTES = 12
_MARK_CHARACTERS = 24


class _Device(NamedTuple):
    id: str
    marks: list[str]  # of names, newest last; the names themselves are nobody's business


class KnownDevices:
    """Signed with the secret of the console, so that nobody makes one for another's name."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._signed = URLSafeTimedSerializer(secret, salt=_PURPOSE)

    def device(self, cookie: str, name: str) -> str:
        """The id of the device; empty where this name has not logged in."""
        found = self._read(cookie)
        return found.id if self._mark(found.id, name) in found.marks else ""

    def logged_in(self, cookie: str, name: str) -> str:
        """The cookie after a log-in of this name."""
        found = self._read(cookie)
        mark = self._mark(found.id, name)
        marks = [*(one for one in found.marks if one != mark), mark][-MAX_NAMES:]
        return self._signed.dumps([found.id, marks])

    def _read(self, cookie: str) -> _Device:
        """What the cookie says; a new device for none, an old one, or one that is not ours."""
        try:
            return _Device(*self._signed.loads(cookie, max_age=LIFETIME_S))
        except BadData:
            return _Device(secrets.token_urlsafe(_ID_BYTES), [])

    def _mark(self, device: str, name: str) -> str:
        text = f"{device}\0{name}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, text, hashlib.sha256).hex()[:_MARK_CHARACTERS]
