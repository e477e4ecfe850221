"""A SASL login by Kerberos, both ends: GSSAPI of RFC 4752. Pure.

In: tokens, and a GSS context that makes and reads them. Out: tokens; on the server's side the user
that the client's Kerberos name is. Raises NotAuthenticated on the server's side,
GssError on the client's. Never: keys, files, or a security layer of SASL: TLS is the one here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import Protocol

from bus.security.sasl_server import GSSAPI, NotAuthenticated

__all__ = ["GSSAPI", "GssContext", "GssError", "GssapiExchange", "client_tokens"]

NO_LAYER = 1
"""The bit of an offer, and of a choice, that says: no layer."""
OFFER_BYTES = 4
"""Bits, and how much may be sent at once with a layer: none without one."""
_OFFER = bytes([NO_LAYER, 0, 0, 0])


class GssError(Exception):
    """A step of the context has failed; the text is Kerberos' own, without a secret."""


class GssContext(Protocol):
    """One end of a context. Each method raises GssError."""

    @property
    def is_complete(self) -> bool:
        """Whether both ends know each other. Raises GssError if the last step has failed."""

    @property
    def initiator(self) -> str:
        """The Kerberos name of the client, of a complete context."""

    def step(self, token: bytes | None) -> bytes:
        """The next token for the other end, empty for none; None: it is the first step."""

    def wrap(self, data: bytes) -> bytes:
        """Protected against changes, not encrypted."""

    def unwrap(self, token: bytes) -> bytes:
        """What the other end has protected."""


class _Step(Enum):
    CONTEXT = "context"
    LAST_TOKEN = "last token"
    """The context is complete here; the client has to take its last token."""
    CHOICE = "choice"
    DONE = "done"


class GssapiExchange:
    """The server's end: the context's tokens, an offer of no layer, the client's choice."""

    def __init__(
        self, accept: Callable[[], GssContext], user_of: Callable[[str], str | None]
    ) -> None:
        """`accept()`: a new context; may raise GssError. `user_of`: the user of a Kerberos name;
        None: it has none here."""
        self._accept, self._user_of = accept, user_of
        self._context: GssContext | None = None
        self._step = _Step.CONTEXT
        self.user: str | None = None
        self.has_token = False
        self.ends_at_ms: int | None = None

    def answer(self, token: bytes) -> bytes:
        """The server's token after this one of the client. Raises NotAuthenticated."""
        try:
            return self._answer(token)
        except GssError as error:
            raise NotAuthenticated(f"Kerberos: {error}") from None

    def _answer(self, token: bytes) -> bytes:
        context = self._context = self._context or self._accept()
        match self._step:
            case _Step.CONTEXT:
                answer = context.step(token)
                if not context.is_complete:
                    return answer
                if answer:
                    self._step = _Step.LAST_TOKEN
                    return answer
            case _Step.LAST_TOKEN:
                if token:
                    raise NotAuthenticated("a token after the end of the Kerberos context")
            case _Step.CHOICE:
                self._choose(context.unwrap(token), context.initiator)
                return b""
            case _Step.DONE:
                raise NotAuthenticated("a token after the login")
        self._step = _Step.CHOICE
        return context.wrap(_OFFER)

    def _choose(self, choice: bytes, name: str) -> None:
        self._step = _Step.DONE
        if choice[:OFFER_BYTES] != _OFFER:
            raise NotAuthenticated("the client asks for a layer of SASL that was not offered")
        # What follows, an authorization id, counts for nothing, as in Kafka: clients name there
        # themselves, nobody, or the service that they connect to.
        user = self._user_of(name)
        if user is None:
            raise NotAuthenticated(f"sasl.kerberos.principal.to.local.rules has none for {name}")
        self.user = user


Tokens = Generator[bytes, bytes | None, None]


def client_tokens(context: GssContext, first: bytes) -> Tokens:
    """The client's end, from its first token on, which was made before: gives its tokens, takes the
    server's. It asks to be whom its ticket names. Raises GssError."""
    received = yield first
    while not context.is_complete:
        received = yield context.step(received or b"")
    offer = context.unwrap(received or b"")
    if len(offer) != OFFER_BYTES or not offer[0] & NO_LAYER:
        raise GssError("the server offers only layers of SASL, which are not known here; use TLS")
    yield context.wrap(_OFFER)
