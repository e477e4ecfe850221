"""Kerberos of this machine, by the package `gssapi` over MIT's library, which is loaded where it is
used first: it is no part of the installation (`requirements-kerberos.lock`).

In: names of principals, keytabs; /etc/krb5.conf by the library. Out: `GssContext`s. Raises
GssError, KerberosUnavailable. A client's first token may have to wait, for the KDC and for name
servers; a server's end reads a keytab, and asks nobody.
"""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

from bus.security.gssapi_sasl import GssError

INSTALL = (
    "Kerberos needs the package gssapi: apt-get install gcc python3-dev libkrb5-dev (Debian), then"
    " .venv/bin/uv pip install --no-deps -r requirements-kerberos.lock"
)


class KerberosUnavailable(Exception):
    """The text says what to install."""


def load_gssapi() -> Any:
    """The package. Raises KerberosUnavailable."""
    try:
        return importlib.import_module("gssapi")
    except (ImportError, OSError) as error:
        raise KerberosUnavailable(f"{INSTALL} ({error})") from None


class KerberosContext:
    """Implements `GssContext`."""

    def __init__(self, context: Any, errors: type[Exception]) -> None:
        self._context, self._errors = context, errors

    @property
    def is_complete(self) -> bool:
        """Whether both ends know each other. Raises GssError: an error of a step that has made a
        token for the other end is kept until then."""
        return bool(self._done(getattr, self._context, "complete"))

    @property
    def initiator(self) -> str:
        """The Kerberos name of the client."""
        return str(self._context.initiator_name)

    def step(self, token: bytes | None) -> bytes:
        """The next token for the other end, empty for none. Raises GssError."""
        return self._done(self._context.step, token) or b""

    def wrap(self, data: bytes) -> bytes:
        """Protected against changes. Raises GssError."""
        return bytes(self._done(self._context.wrap, data, False).message)

    def unwrap(self, token: bytes) -> bytes:
        """What the other end has protected. Raises GssError."""
        return bytes(self._done(self._context.unwrap, token).message)

    def _done(self, call: Any, *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except self._errors as error:
            raise GssError(_words(error)) from None


class Keytab:
    """The keys of a server, read for each context: a replaced file counts for the next login."""

    def __init__(self, path: str, principal: str) -> None:
        """Raises KerberosUnavailable; GssError if the file has no key of the principal."""
        self._gssapi = load_gssapi()
        self._path, self._principal = path, principal
        if not Path(path).is_file():
            raise GssError(f"the keytab {path} is no file")
        self.principal = str(self._credentials().name)
        """With its realm."""

    def accept(self) -> KerberosContext:
        """The server's end of a new context. Raises GssError."""
        context = self._gssapi.SecurityContext(usage="accept", creds=self._credentials())
        return KerberosContext(context, self._gssapi.exceptions.GSSError)

    def _credentials(self) -> Any:
        # Whoever repeats another client's token gets no further: what follows is protected with a
        # key that only the client has. So what was seen is not kept in a file, as the library does.
        return _credentials(
            self._gssapi, self._principal, "accept", {"keytab": self._path, "rcache": "none:"}
        )


class TicketSource:
    """A client's tickets: from a keytab, renewed by themselves, or what `kinit` has got."""

    def __init__(self, service: str, principal: str, keytab: str) -> None:
        """`service`: of the server's principal SERVICE/HOST. Without a keytab the tickets of
        `kinit` are used. Raises KerberosUnavailable."""
        self._gssapi = load_gssapi()
        self._service, self._principal, self._keytab = service, principal, keytab
        self._lock = threading.Lock()

    def initiate(self, host: str) -> KerberosContext:
        """The client's end of a new context with the server of this name. Raises GssError."""
        gssapi = self._gssapi
        store = None
        if self._keytab:
            if not Path(self._keytab).is_file():
                raise GssError(f"the keytab {self._keytab} is no file")
            # Whose keys the file has: without, the library only says that there is no ticket.
            _credentials(gssapi, self._principal, "accept", {"keytab": self._keytab})
            # Tickets are kept by the process, of each keytab apart.
            cache = f"MEMORY:databus:{self._principal}:{self._keytab}"
            store = {"client_keytab": self._keytab, "ccache": cache}
        kind = gssapi.NameType.hostbased_service
        flags = gssapi.RequirementFlag
        with self._lock:  # the cache is one for all threads
            credentials = _credentials(gssapi, self._principal, "initiate", store)
        context = gssapi.SecurityContext(
            name=gssapi.Name(f"{self._service}@{host}", name_type=kind),
            creds=credentials,
            mech=gssapi.MechType.kerberos,
            flags=flags.mutual_authentication | flags.integrity,
            usage="initiate",
        )
        return KerberosContext(context, gssapi.exceptions.GSSError)


def _credentials(gssapi: Any, principal: str, usage: str, store: dict[str, str] | None) -> Any:
    errors = gssapi.exceptions.GSSError
    try:
        name = None
        if principal:
            name = gssapi.Name(principal, name_type=gssapi.NameType.kerberos_principal)
        found = gssapi.Credentials(
            name=name, usage=usage, mechs=[gssapi.MechType.kerberos], store=store
        )
        found.lifetime if usage == "initiate" else None  # noqa: B018
    except errors as error:
        raise GssError(_words(error)) from None
    return found


def _words(error: Any) -> str:
    """Of the mechanism alone, where it has any: what GSSAPI says itself is mostly the same."""
    major, _, minor = str(error).partition(", Minor ")
    said = minor.partition(": ")[2]
    return major.partition(": ")[2] if said in ("", "Success", "Unknown error") else said
