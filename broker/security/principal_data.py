"""Encodes the principal in an Envelope. The envelope's connection authenticates its sender."""

from __future__ import annotations

from struct import Struct

from broker.security.principal import Principal
from bus.protocol.generated.client_protocol import (
    DEFAULT_PRINCIPAL_DATA_DECODERS,
    DEFAULT_PRINCIPAL_DATA_ENCODERS,
    DefaultPrincipalData,
)
from bus.protocol.wire import Buffer, ProtocolError

VERSION = Struct(">h")


def encode_principal(principal: Principal) -> bytes:
    """Kafka's DefaultPrincipalData, preceded by its version, as in an Envelope."""
    chunks: list[Buffer] = [VERSION.pack(0)]
    data = DefaultPrincipalData(
        type=principal.kind, name=principal.name, token_authenticated=principal.has_token
    )
    DEFAULT_PRINCIPAL_DATA_ENCODERS[0](data, chunks.append)
    return b"".join(chunks)


def decode_principal(data: bytes) -> Principal:
    """The principal in an Envelope. Raises ProtocolError."""
    if len(data) < VERSION.size or VERSION.unpack_from(data)[0] != 0:
        raise ProtocolError("a principal of a version that is not known here")
    found, _ = DEFAULT_PRINCIPAL_DATA_DECODERS[0](data, VERSION.size)
    return Principal(found.type, found.name, found.token_authenticated)
