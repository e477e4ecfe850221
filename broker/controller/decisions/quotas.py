"""Decisions about client quotas (49), and what is held of them (48).

In: the image, what is asked. Out: ClientQuotaRecords and a result per entity; entries of the image.
Never: a quota's enforcement. Kafka: ClientQuotaControlManager, ClientQuotasImage (KIP-546).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address
from math import isfinite

from broker.controller.decisions.decision import Decision, RefusedError
from broker.metadata.image import MetadataImage, QuotaEntity
from bus.errors import ErrorCode
from bus.protocol.generated.metadata_records import ClientQuotaRecord, EntityData
from bus.protocol.quota_entities import CLIENT_ID, IP, USER

_RATES = {"producer_byte_rate", "consumer_byte_rate", "controller_mutation_rate"}
_CLIENT_KEYS = frozenset({*_RATES, "request_percentage"})
_IP_KEYS = frozenset({"connection_creation_rate"})
WHOLE_NUMBERS = frozenset({"producer_byte_rate", "consumer_byte_rate", *_IP_KEYS})
_MAX_LONG = float(1 << 63)
_MAX_INT = float(1 << 31)
_ARTICLE = {"INT": "an", "LONG": "a"}


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """One entity and its new values; None takes a quota back."""

    entity: QuotaEntity
    values: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class QuotaResult:
    """What became of one entity."""

    entity: QuotaEntity
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def alter_quotas(
    image: MetadataImage, changes: Sequence[QuotaChange], validate_only: bool = False
) -> Decision[tuple[QuotaResult, ...]]:
    """Each entity changes as a whole or not at all."""
    records: list[object] = []
    results = []
    counted = Counter(_ordered(change.entity) for change in changes)
    for entity, change in {_ordered(change.entity): change for change in changes}.items():
        keys = [key for key, _ in change.values]
        try:
            if counted[entity] > 1 or len(set(keys)) < len(keys):
                raise _invalid(
                    f"Ignoring duplicate entity ClientQuotaEntity(entries={_java_text(entity)})"
                )
            records += _alter(image, change)
            results.append(QuotaResult(change.entity))
        except RefusedError as error:
            refusal = error.refusal
            results.append(QuotaResult(change.entity, refusal.error, refusal.message))
    return Decision(() if validate_only else tuple(records), tuple(results))


def _ordered(entity: QuotaEntity) -> QuotaEntity:
    return tuple(sorted(entity, key=lambda part: part[0]))


def _java_text(entity: QuotaEntity) -> str:
    """As Java prints a map."""
    parts = (f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"{{{', '.join(parts)}}}"


def _alter(image: MetadataImage, change: QuotaChange) -> list[object]:
    allowed = _keys_of(change.entity)
    entity = _ordered(change.entity)
    held = image.client_quotas.get(entity, {})
    records: list[object] = []
    for key, value in change.values:
        if value is not None:
            if key not in allowed:
                raise _invalid(f"Invalid configuration key {key}")
            _check_value(key, value)
        if held.get(key) != value:
            records.append(_record(entity, key, value))
    return records


def _keys_of(entity: QuotaEntity) -> frozenset[str]:
    kinds = [kind for kind, _ in entity]
    if not kinds:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if len(set(kinds)) != len(kinds):
        raise _invalid("Invalid repeated part of a client quota entity")
    if IP not in kinds:
        return _CLIENT_KEYS
    if len(kinds) > 1:
        raise _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        )
    _check_ip(entity[0][1])
    return _IP_KEYS


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)


def _check_ip(name: str | None) -> None:
    if name is None:
        return
    try:
        ip_address(name)
    except ValueError:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, f"{name} is not a valid IP or resolvable host."
        ) from None


def _check_value(key: str, value: float) -> None:
    if not isfinite(value):
        raise _invalid(f"Quota {key} must be a finite number")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    name, highest = ("INT", _MAX_INT) if key in _IP_KEYS else ("LONG", _MAX_LONG)
    if value >= highest:
        raise _invalid(f"Proposed value for {key} is too large for {_ARTICLE[name]} {name}.")
    if key in WHOLE_NUMBERS and value != int(value):
        raise _invalid(f"{key} cannot be a fractional value.")


def _record(entity: QuotaEntity, key: str, value: float | None) -> ClientQuotaRecord:
    return ClientQuotaRecord(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        key=key,
        value=0.0 if value is None else value,
        remove=value is None,
    )


class Match(IntEnum):
    """How DescribeClientQuotas looks at one part of an entity."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


@dataclass(frozen=True, slots=True)
class Filter:
    """One part of an entity that is looked for."""

    kind: str
    match: Match
    name: str | None = None

    def fits(self, parts: Mapping[str, str | None]) -> bool:
        """Whether an entity has such a part."""
        if self.kind not in parts:
            return False
        if self.match is Match.ANY:
            return True
        return parts[self.kind] == (None if self.match is Match.DEFAULT else self.name)


def find_quotas(
    image: MetadataImage, filters: Sequence[Filter], strict: bool
) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
    """Entities that fit every filter; `strict` leaves out those with other parts too."""
    for entity, values in image.client_quotas.items():
        parts = dict(entity)
        if strict and len(parts) != len(filters):
            continue
        if all(one.fits(parts) for one in filters):
            yield entity, values
