"""The registry of APIs: key -> name, versions, listeners, and its generated module, loaded late.

In: a key. Out: `ApiInfo`. Raises ProtocolError(UNSUPPORTED_VERSION) for what is not in the tables.
Never: what this broker advertises; that is derived from its handlers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import import_module
from types import ModuleType
from typing import Any, cast

from bus.errors import ErrorCode
from bus.protocol.generated.registry import ROWS, ApiKey
from bus.protocol.wire import Buffer, ProtocolError, Write

__all__ = ["APIS", "ApiInfo", "ApiKey", "api"]

Decode = Callable[[Buffer, int], tuple[Any, int]]
Encode = Callable[[Any, Write], None]

CONTROLLED_SHUTDOWN = ApiKey.CONTROLLED_SHUTDOWN
API_VERSIONS = ApiKey.API_VERSIONS


@dataclass(frozen=True)
class ApiInfo:
    """One API. Versions are those of Kafka 4.4; of keys 4-7 those of 3.9, the last to have them.
    `module_name` is None for an API that nobody here speaks (`generator/selection.py`)."""

    key: int
    name: str
    module_name: str | None
    first_version: int
    last_version: int
    flexible_from: int | None
    listeners: tuple[str, ...]
    unstable_from: int | None

    @property
    def latest(self) -> int:
        """The newest version Kafka advertises without being told to offer unstable ones."""
        return self.last_version if self.unstable_from is None else self.unstable_from - 1

    @cached_property
    def module(self) -> ModuleType:
        """The generated codec; the first use imports it. Raises ProtocolError if there is none."""
        if self.module_name is None:
            raise unsupported(self.key, None)
        return import_module(f"bus.protocol.generated.{self.module_name}")

    def has(self, version: int) -> bool:
        """Whether the tables know this version."""
        return self.first_version <= version <= self.last_version

    def is_flexible(self, version: int) -> bool:
        """Whether this version has tagged fields and compact lengths (KIP-482)."""
        return self.flexible_from is not None and version >= self.flexible_from

    def request_header_version(self, version: int) -> int:
        """The version of the request header in front of a request."""
        if self.key == CONTROLLED_SHUTDOWN and version == 0:
            return 0
        return 2 if self.is_flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """The version of the response header; ApiVersions is read by clients that know none yet."""
        return 1 if self.is_flexible(version) and self.key != API_VERSIONS else 0

    def request_decoder(self, version: int) -> Decode:
        """Buffer and offset -> request and offset."""
        return cast(Decode, self._of("REQUEST_DECODERS", version))

    def request_encoder(self, version: int) -> Encode:
        """Request and write function -> nothing; chunks are written."""
        return cast(Encode, self._of("REQUEST_ENCODERS", version))

    def response_decoder(self, version: int) -> Decode:
        """Buffer and offset -> response and offset."""
        return cast(Decode, self._of("RESPONSE_DECODERS", version))

    def response_encoder(self, version: int) -> Encode:
        """Response and write function -> nothing; chunks are written."""
        return cast(Encode, self._of("RESPONSE_ENCODERS", version))

    def _of(self, table: str, version: int) -> Any:
        try:
            return getattr(self.module, table)[version]
        except KeyError:
            raise unsupported(self.key, version) from None


APIS: dict[int, ApiInfo] = {row[0]: ApiInfo(*row) for row in ROWS}


@cache
def api(key: int) -> ApiInfo:
    """The API of a key. Raises ProtocolError(UNSUPPORTED_VERSION) for an unknown one."""
    try:
        return APIS[key]
    except KeyError:
        raise unsupported(key, None) from None


def unsupported(key: int, version: int | None) -> ProtocolError:
    """The error for an API or version that the tables do not have."""
    known = APIS.get(key)
    name = known.name if known else f"API {key}"
    detail = name if version is None else f"{name} version {version}"
    return ProtocolError(f"{detail} is not known here", ErrorCode.UNSUPPORTED_VERSION)
