"""Decisions about ACLs (29, 30, 31): stored as records, found by filters.

In: the image, ACLs, ids drawn by the shell. Out: records and results. Never: an authorization.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from broker.controller.decisions.acl_hosts import check_host
from broker.controller.decisions.decision import Decision, RefusedError
from broker.metadata.image import AclImage, MetadataImage
from broker.metadata.image_writer import acl_as_record
from bus.errors import ErrorCode
from bus.protocol.acls import Pattern
from bus.protocol.generated.metadata_records import RemoveAccessControlEntryRecord

MAX_CHANGES = 10_000
"""Rules made or removed by one request: they are one batch of the metadata log."""

ANY = 1
WILDCARD = "*"
_RESOURCES = frozenset({2, 3, 4, 5, 6, 7})
_OPERATIONS = frozenset(range(2, 15))
_PERMISSIONS = frozenset({2, 3})


class FilterFields(Protocol):
    """The fields of a filter in Kafka's messages."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True)
class AclFilter:
    """What is looked for: None and ANY fit everything."""

    resource_type: int = ANY
    resource_name: str | None = None
    pattern_type: int = Pattern.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission_type: int = ANY

    @classmethod
    def of(cls, wanted: FilterFields) -> AclFilter:
        """What DescribeAcls asks for, or one filter of DeleteAcls."""
        return cls(
            wanted.resource_type_filter,
            wanted.resource_name_filter,
            wanted.pattern_type_filter,
            wanted.principal_filter,
            wanted.host_filter,
            wanted.operation,
            wanted.permission_type,
        )

    def fits(self, acl: AclImage) -> bool:
        """Whether a rule is among those looked for."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self._fits_resource(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission_type in (ANY, acl.permission_type)
        )

    def _fits_resource(self, acl: AclImage) -> bool:
        if self.pattern_type not in (Pattern.ANY, Pattern.MATCH, acl.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != Pattern.MATCH:
            return False
        if acl.pattern_type == Pattern.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name == WILDCARD


@dataclass(frozen=True, slots=True)
class AclResult:
    """What became of one new rule."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


def find_acls(image: MetadataImage, wanted: AclFilter) -> Iterator[tuple[bytes, AclImage]]:
    """Rules that fit, in the order in which they were made."""
    return ((key, acl) for key, acl in image.acls.items() if wanted.fits(acl))


def create_acls(
    image: MetadataImage, asked: Sequence[AclImage], ids: Iterator[bytes]
) -> Decision[tuple[AclResult, ...]]:
    """Keep rules; one that is there already is not kept twice."""
    records: list[object] = []
    results = []
    held = set(image.acls.values())
    for acl in asked:
        try:
            _check(acl)
            check_host(acl.host, image.metadata_version)
            if len(records) >= MAX_CHANGES:
                raise RefusedError(ErrorCode.INVALID_REQUEST, "too many rules in one request")
            if acl not in held:
                held.add(acl)
                records.append(acl_as_record(next(ids), acl))
            results.append(AclResult())
        except RefusedError as error:
            results.append(AclResult(error.refusal.error, error.refusal.message))
    return Decision(tuple(records), tuple(results))


def _check(acl: AclImage) -> None:
    if acl.pattern_type not in (Pattern.LITERAL, Pattern.PREFIXED):
        raise _invalid(f"Invalid patternType {acl.pattern_type}")
    if acl.resource_type not in _RESOURCES:
        raise _invalid(f"Invalid resourceType {acl.resource_type}")
    if acl.operation not in _OPERATIONS:
        raise _invalid(f"Invalid operation {acl.operation}")
    if acl.permission_type not in _PERMISSIONS:
        raise _invalid(f"Invalid permissionType {acl.permission_type}")
    if not acl.resource_name:
        raise _invalid("Resource name should not be empty")
    kind, colon, name = acl.principal.partition(":")
    if not (kind and colon and name):
        raise _invalid(f"Could not parse principal from `{acl.principal}`")


def _invalid(message: str) -> RefusedError:
    return RefusedError(ErrorCode.INVALID_REQUEST, message)


def delete_acls(
    image: MetadataImage, filters: Sequence[AclFilter]
) -> Decision[tuple[tuple[AclImage, ...], ...]]:
    """Remove the rules that fit any filter; the reply has those of each filter."""
    gone: dict[bytes, None] = {}
    found: list[tuple[AclImage, ...]] = []
    for wanted in filters:
        matching = list(find_acls(image, wanted))
        gone.update(dict.fromkeys(key for key, _ in matching))
        found.append(tuple(acl for _, acl in matching))
    records = tuple(RemoveAccessControlEntryRecord(id=key) for key in gone)
    return Decision(records[:MAX_CHANGES], tuple(found))
