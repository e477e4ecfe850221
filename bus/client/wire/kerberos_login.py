"""The wire client's login by Kerberos.

In: a service, a principal and its keytab, or the tickets of `kinit`. Out: a `SaslLogin`, whose
first token is made before its connection is: that asks the KDC. Raises KerberosUnavailable,
LoginRefused. Never: an authorization id; who logs in is whom the ticket names.
"""

from __future__ import annotations

from typing import ClassVar

from bus.client.wire.sasl import LoginRefused, SaslExchange, SaslLogin, Tokens
from bus.security.gssapi_sasl import GSSAPI, GssContext, GssError, client_tokens
from bus.security.kerberos import TicketSource


class KerberosLogin(SaslLogin):
    """Of any number of connections."""

    __slots__ = ("_service", "_source")
    _service: str
    _source: TicketSource
    is_slow: ClassVar[bool] = True

    def __init__(self, service: str, principal: str = "", keytab: str = "") -> None:
        """Without a keytab the tickets of `kinit` count. Raises KerberosUnavailable."""
        super().__init__(GSSAPI, principal or "of kinit's ticket", "")
        object.__setattr__(self, "_service", service)
        object.__setattr__(self, "_source", TicketSource(service, principal, keytab))

    def prepared(self, host: str) -> SaslLogin:
        """With a ticket for the server of this host. May wait for the KDC. Raises LoginRefused."""
        try:
            context = self._source.initiate(host)
            return _PreparedLogin(self.user, context, context.step(None))
        except GssError as error:
            raise LoginRefused(
                f"no Kerberos ticket for {self._service}/{host} as {self.user}: {error}"
            ) from None


class _PreparedLogin(SaslLogin):
    """Of one connection."""

    __slots__ = ("_context", "_first")
    _context: GssContext
    _first: bytes

    def __init__(self, user: str, context: GssContext, first: bytes) -> None:
        super().__init__(GSSAPI, user, "")
        object.__setattr__(self, "_context", context)
        object.__setattr__(self, "_first", first)

    def begin(self) -> SaslExchange:
        """The login of this connection."""
        return SaslExchange(_tokens(self._context, self._first))


def _tokens(context: GssContext, first: bytes) -> Tokens:
    try:
        yield from client_tokens(context, first)
    except GssError as error:
        raise LoginRefused(f"the login by Kerberos has failed: {error}") from None
