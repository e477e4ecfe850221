"""A SASL login by a bearer token: OAUTHBEARER (RFC 7628), both ends. Pure.

In: the other end's messages; a token, or what judges one. Out: messages, and in the end whose token
it is. Raises `NotAuthenticated`, ValueError. Never: what is in a token (that is
`bus.security.bearer_tokens`), a token in an error's text, or a second token in one login.

The course of a login that is refused: the client's token, the server's reason in JSON, one byte of
the client, the refusal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bus.security.sasl_server import NotAuthenticated

SEPARATOR = "\x01"
"""Between the parts of a client's first message; alone: the client has read the server's reason."""

MOST_TOKEN_CHARACTERS = 65_536
"""A longer token is not looked into."""
MOST_REASON_BYTES = 16_384
"""Of what a client takes from a server."""

_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_KEY, _VALUE = r"[A-Za-z]+", r"[\x21-\x7e \t\r\n]+"
_FIRST = re.compile(rf"n,(?:a=({_NAME}))?,\x01((?:{_KEY}={_VALUE}\x01)*)\x01")
_AUTHORIZATION = re.compile(r"([A-Za-z0-9_]+) +([-_~+/.a-zA-Z0-9]+=*)")
_AUTH = "auth"


class TokenRefused(Exception):
    """The token is not good here; the text says why, for a log, and has nothing of the token's."""


@dataclass(frozen=True, slots=True)
class BearerToken:
    """What a token says that is good here."""

    user: str
    expires_ms: int
    """Unix time."""


@dataclass(frozen=True, slots=True)
class TokenRules:
    """What a token must say. Without `audiences` or an `issuer` these are not looked at."""

    audiences: tuple[str, ...]
    issuer: str | None
    clock_skew_s: int = 30
    user_claim: str = "sub"
    scope_claim: str = "scope"


@dataclass(frozen=True, slots=True)
class ClientFirstMessage:
    """A token, in whose name the client wants to act, and what else it says."""

    token: str = field(repr=False)
    authorization_id: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Raises ValueError for what the message cannot carry."""
        acts_as = f"a={self.authorization_id}" if self.authorization_id else ""
        pairs = {_AUTH: f"Bearer {self.token}", **self.extensions}
        parts = (f"{key}={value}{SEPARATOR}" for key, value in pairs.items())
        message = f"n,{acts_as},{SEPARATOR}{''.join(parts)}{SEPARATOR}".encode("ascii")
        if parse_client_first(message) != self:
            raise ValueError("the token or an extension has characters that cannot be sent")
        return message


def parse_client_first(message: bytes) -> ClientFirstMessage:
    """Raises ValueError, as Kafka refuses it."""
    match = _FIRST.fullmatch(message.decode("ascii"))  # UnicodeDecodeError is a ValueError
    if match is None:
        raise ValueError("no first message of OAUTHBEARER")
    pairs = dict(pair.split("=", 1) for pair in match[2].split(SEPARATOR) if pair)
    authorization = _AUTHORIZATION.fullmatch(pairs.pop(_AUTH, ""))
    if authorization is None or authorization[1].lower() != "bearer":
        raise ValueError("no bearer token in the first message of OAUTHBEARER")
    return ClientFirstMessage(authorization[2], match[1] or "", pairs)


class BearerExchange:
    """The server's end. Implements `ServerExchange`.

    Invariant: `_reason` is what the client was told after a token that is not good.
    """

    def __init__(self, judge: Callable[[str], BearerToken]) -> None:
        """`judge` raises TokenRefused."""
        self._judge = judge
        self._reason: str | None = None
        self._refused_because = ""
        self.user: str | None = None
        self.has_token = False
        self.ends_at_ms: int | None = None

    def answer(self, token: bytes) -> bytes:
        """Nothing if the token is good, else the reason, once. Raises NotAuthenticated."""
        if self.user is not None:
            raise NotAuthenticated("a token after the login")
        if self._reason is not None:
            is_read = token == SEPARATOR.encode()
            raise NotAuthenticated(self._refused_because, self._reason if is_read else None)
        try:
            message = parse_client_first(token)
        except ValueError as error:
            raise NotAuthenticated(str(error)) from None
        try:
            good = self._judge(message.token)
        except TokenRefused as error:
            self._refused_because = str(error)
            self._reason = '{"status":"invalid_token"}'
            return self._reason.encode()
        if message.authorization_id not in ("", good.user):
            raise NotAuthenticated(
                "another authorization id than the token's user",
                "Authentication failed: Client requested an authorization id "
                f"({message.authorization_id}) that is different from the token's principal name "
                f"({good.user})",
            )
        self.user, self.ends_at_ms = good.user, good.expires_ms
        return b""


def reason_of(answer: bytes) -> str:
    """Why a server does not take our token, of its answer, for an operator."""
    if len(answer) > MOST_REASON_BYTES:
        return "its reason is too long"
    try:
        found = json.loads(answer)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("status"), str):
        return "it gives no reason"
    scope = found.get("scope")
    wanted = f" (it wants the scope {scope!r})" if isinstance(scope, str) and scope else ""
    return f"{found['status']!r}{wanted}"
